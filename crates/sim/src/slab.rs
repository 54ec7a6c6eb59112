//! Things under way, known by handles that are never mistaken for a later one's.

use loadline_linux::prefetch::prefetch;

/// Index of an item in a [`Slab`], with its generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Handle {
    index: u32,
    generation: u32,
}

/// Things by their handles; places of those that are gone are used again.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    places: Vec<(u32, Option<T>)>,
    vacant: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { places: Vec::new(), vacant: Vec::new() }
    }
}

impl<T> Slab<T> {
    pub(crate) fn insert(&mut self, thing: T) -> Handle {
        if let Some(index) = self.vacant.pop() {
            let (generation, place) = &mut self.places[index as usize];
            *place = Some(thing);
            return Handle { index, generation: *generation };
        }
        self.places.push((0, Some(thing)));
        Handle { index: (self.places.len() - 1) as u32, generation: 0 }
    }

    pub(crate) fn get_mut(&mut self, handle: Handle) -> Option<&mut T> {
        let (generation, place) = self.places.get_mut(handle.index as usize)?;
        if *generation == handle.generation { place.as_mut() } else { None }
    }

    pub(crate) fn get(&self, handle: Handle) -> Option<&T> {
        let (generation, place) = self.places.get(handle.index as usize)?;
        if *generation == handle.generation { place.as_ref() } else { None }
    }

    pub(crate) fn remove(&mut self, handle: Handle) -> Option<T> {
        let (generation, place) = self.places.get_mut(handle.index as usize)?;
        if *generation != handle.generation {
            return None;
        }
        let thing = place.take()?;
        *generation = generation.wrapping_add(1);
        self.vacant.push(handle.index);
        Some(thing)
    }

    /// Drops a thing where it is, without moving it.
    pub(crate) fn discard(&mut self, handle: Handle) {
        let Some((generation, place)) = self.places.get_mut(handle.index as usize) else { return };
        if *generation == handle.generation && place.is_some() {
            *place = None;
            *generation = generation.wrapping_add(1);
            self.vacant.push(handle.index);
        }
    }

    /// Has the place of a thing fetched.
    pub(crate) fn prefetch(&self, handle: Handle) {
        self.places.get(handle.index as usize).into_iter().for_each(prefetch);
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.vacant.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Handle, &T)> {
        self.places.iter().enumerate().filter_map(|(index, (generation, thing))| {
            let handle = Handle { index: index as u32, generation: *generation };
            thing.as_ref().map(|thing| (handle, thing))
        })
    }
}
