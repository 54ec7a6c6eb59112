//! Small formulas: numbers, names, `+ - * /`, brackets, and min, max, mean of a list.
//!
//! ```text
//! sum     = product { (+|-) product }        name = letters, digits, _ and dots; name@row
//! product = factor  { (*|/) factor }
//! factor  = number | name | call | ( sum ) | - factor
//! call    = (min|max|mean) ( sum { , sum } )
//! ```

use std::fmt;

use loadline_measure::statistics::sample;

/// A formula that was read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Formula {
    Number(f64),
    Name(String),
    Negative(Box<Self>),
    Both(char, Box<Self>, Box<Self>),
    Call(&'static str, Vec<Self>),
}

/// A text that is no formula.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FormulaError {
    /// It goes on where it could have ended, or with what is not allowed there.
    #[error("expected {expected}, found `{found}`")]
    Unexpected { found: String, expected: &'static str },
    /// It ends too early.
    #[error("it ends where {expected} should stand")]
    Ends { expected: &'static str },
    /// It is nested beyond sense.
    #[error("brackets are nested more than {DEPTH} deep")]
    Deep,
}

impl Formula {
    /// Reads a formula.
    pub(crate) fn parse(text: &str) -> Result<Self, FormulaError> {
        let mut parser = Parser { tokens: tokens(text), next: 0, depth: 0 };
        let formula = parser.sum()?;
        match parser.peek() {
            None => Ok(formula),
            Some(_) => Err(parser.wrong("an operator or the end")),
        }
    }

    /// Every name in it.
    pub(crate) fn names(&self) -> Vec<&str> {
        match self {
            Self::Number(_) => Vec::new(),
            Self::Name(name) => vec![name],
            Self::Negative(inner) => inner.names(),
            Self::Both(_, left, right) => [left.names(), right.names()].concat(),
            Self::Call(_, list) => list.iter().flat_map(Self::names).collect(),
        }
    }

    /// Its value, where `of` knows every name.
    pub(crate) fn value<E>(&self, of: &dyn Fn(&str) -> Result<f64, E>) -> Result<f64, E> {
        Ok(match self {
            Self::Number(number) => *number,
            Self::Name(name) => of(name)?,
            Self::Negative(inner) => -inner.value(of)?,
            Self::Both(operator, left, right) => {
                let (left, right) = (left.value(of)?, right.value(of)?);
                match operator {
                    '+' => left + right,
                    '-' => left - right,
                    '*' => left * right,
                    _ => left / right,
                }
            }
            Self::Call(function, list) => {
                let values = list.iter().map(|one| one.value(of)).collect::<Result<Vec<_>, E>>()?;
                match *function {
                    "min" => values.iter().copied().fold(f64::INFINITY, f64::min),
                    "max" => values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
                    _ => sample::mean(&values),
                }
            }
        })
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Number(f64),
    Name(String),
    Sign(char),
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Name(name) => f.write_str(name),
            Self::Sign(sign) => write!(f, "{sign}"),
        }
    }
}

/// The tokens of a text; anything that is none stands as a sign, which no rule takes.
fn tokens(text: &str) -> Vec<Token> {
    let letters: Vec<char> = text.chars().collect();
    let mut tokens = Vec::new();
    let mut at = 0;
    let run = |from: usize, fits: fn(char) -> bool| -> String {
        letters[from..].iter().take_while(|letter| fits(**letter)).collect()
    };
    while let Some(&letter) = letters.get(at) {
        let word = match letter {
            '0'..='9' | '.' => run(at, |c| c.is_ascii_digit() || c == '.'),
            'a'..='z' | 'A'..='Z' | '_' => run(at, in_name),
            _ => letter.to_string(),
        };
        at += word.chars().count();
        if letter.is_whitespace() {
            continue;
        }
        if let Ok(number) = word.parse() {
            tokens.push(Token::Number(number));
        } else if letter.is_ascii_alphabetic() || letter == '_' {
            let row = match letters.get(at) {
                Some('@') => run(at, |c| c.is_ascii_alphanumeric() || "@._-".contains(c)),
                _ => String::new(),
            };
            at += row.chars().count();
            tokens.push(Token::Name(word + &row));
        } else {
            tokens.push(Token::Sign(letter));
        }
    }
    tokens
}

fn in_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "._".contains(letter)
}

struct Parser {
    tokens: Vec<Token>,
    next: usize,
    depth: usize,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.next)
    }

    fn takes(&mut self, signs: &str) -> Option<char> {
        match self.peek() {
            Some(Token::Sign(sign)) if signs.contains(*sign) => {
                let sign = *sign;
                self.next += 1;
                Some(sign)
            }
            _ => None,
        }
    }

    fn wrong(&self, expected: &'static str) -> FormulaError {
        match self.peek() {
            Some(token) => FormulaError::Unexpected { found: token.to_string(), expected },
            None => FormulaError::Ends { expected },
        }
    }

    fn sum(&mut self) -> Result<Formula, FormulaError> {
        let mut left = self.product()?;
        while let Some(sign) = self.takes("+-") {
            left = Formula::Both(sign, Box::new(left), Box::new(self.product()?));
        }
        Ok(left)
    }

    fn product(&mut self) -> Result<Formula, FormulaError> {
        let mut left = self.factor()?;
        while let Some(sign) = self.takes("*/") {
            left = Formula::Both(sign, Box::new(left), Box::new(self.factor()?));
        }
        Ok(left)
    }

    fn factor(&mut self) -> Result<Formula, FormulaError> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(FormulaError::Deep);
        }
        let factor = self.factor_within();
        self.depth -= 1;
        factor
    }

    fn factor_within(&mut self) -> Result<Formula, FormulaError> {
        if self.takes("-").is_some() {
            return Ok(Formula::Negative(Box::new(self.factor()?)));
        }
        if self.takes("(").is_some() {
            let inner = self.sum()?;
            return self.takes(")").map(|_| inner).ok_or_else(|| self.wrong("`)`"));
        }
        match self.peek().cloned() {
            Some(Token::Number(number)) => {
                self.next += 1;
                Ok(Formula::Number(number))
            }
            Some(Token::Name(name)) => {
                self.next += 1;
                match FUNCTIONS.into_iter().find(|function| *function == name) {
                    Some(function) if self.takes("(").is_some() => self.list(function),
                    _ => Ok(Formula::Name(name)),
                }
            }
            _ => Err(self.wrong("a number, a name or `(`")),
        }
    }

    fn list(&mut self, function: &'static str) -> Result<Formula, FormulaError> {
        let mut list = vec![self.sum()?];
        while self.takes(",").is_some() {
            list.push(self.sum()?);
        }
        let list = Formula::Call(function, list);
        self.takes(")").map(|_| list).ok_or_else(|| self.wrong("`,` or `)`"))
    }
}

const FUNCTIONS: [&str; 3] = ["min", "max", "mean"];
/// Deeper than anyone writes, and shallow enough for any stack.
const DEPTH: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Result<f64, String> {
        let names = |name: &str| match name {
            "at_10" => Ok(500.0),
            "elapsed@region-random" => Ok(7.0),
            _ => Err(format!("no {name}")),
        };
        Formula::parse(text).map_err(|error| error.to_string())?.value(&names)
    }

    #[test]
    fn arithmetic_is_as_on_paper() {
        let cases = [
            ("80 / 14.45", 80.0 / 14.45),
            ("(180 * 1024 * 1024) / (50 * 1024 * 8)", 460.8),
            ("1 - 2 - 3", -4.0),
            ("8 / 2 / 2", 2.0),
            ("4 * at_10 + -1", 1999.0),
            ("max(1, at_10, 3) - mean(2, 4)", 497.0),
            ("2*elapsed@region-random", 14.0),
        ];
        for (text, right) in cases {
            assert_eq!(value(text), Ok(right), "{text}");
        }
    }

    #[test]
    fn what_is_no_formula_is_told_where_it_stops_being_one() {
        let cases = [
            ("", "it ends where a number"),
            ("1 +", "it ends where a number"),
            ("(1", "where `)` should stand"),
            ("1 2", "expected an operator or the end, found `2`"),
            ("1 % 2", "found `%`"),
            ("max(1; 2)", "expected `,` or `)`, found `;`"),
            ("nothing", "no nothing"),
        ];
        for (text, told) in cases {
            let error = value(text).unwrap_err();
            assert!(error.contains(told), "{text}: {error}");
        }
        assert_eq!(Formula::parse(&"(".repeat(100_000)), Err(FormulaError::Deep));
    }
}
