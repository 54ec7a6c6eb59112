//! Connections to a member of the store.

use std::{fmt::Display, fs, io, path::Path, sync::Arc};

use bytes::Bytes;
use h2::client;
use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;

use super::{EtcdError, grpc::Channel};
use crate::{
    cluster::{Endpoint, Settings},
    tls::{in_words, trusting},
};

/// What connections over TLS are made with; none where none is.
pub(super) fn tls(settings: &Settings) -> Result<Option<TlsConnector>, EtcdError> {
    if !settings.endpoints.iter().any(|it| it.is_secure) {
        return Ok(None);
    }
    let roots = match &settings.authorities {
        Some(path) => authorities(path)?,
        None => {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            roots
        }
    };
    let config = trusting(roots).map_err(|error| file("TLS", Path::new(""), &error))?;
    let mut config = match &settings.certificate {
        None => config.with_no_client_auth(),
        Some((chain, key)) => {
            let certificates = certificates("the certificate", chain)?;
            let private = PrivateKeyDer::from_pem_file(key);
            let private = private.map_err(|error| file("the key", key, &error))?;
            let config = config.with_client_auth_cert(certificates, private);
            config.map_err(|error| file("the certificate", chain, &error))?
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Some(TlsConnector::from(Arc::new(config))))
}

fn authorities(path: &Path) -> Result<RootCertStore, EtcdError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates("the authorities", path)? {
        roots.add(certificate).map_err(|error| file("the authorities", path, &error))?;
    }
    Ok(roots)
}

fn certificates(
    what: &'static str,
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, EtcdError> {
    let found =
        CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found = found.map_err(|error| file(what, path, &error))?;
    if found.is_empty() {
        return Err(file(what, path, &"there is no certificate in it"));
    }
    Ok(found)
}

/// The first line of a file, without blanks around it.
pub(super) fn first_line(what: &'static str, path: &Path) -> Result<String, EtcdError> {
    let text = fs::read_to_string(path).map_err(|error| file(what, path, &error))?;
    let line = text.lines().next().unwrap_or_default().trim();
    if line.is_empty() {
        return Err(file(what, path, &"its first line is empty"));
    }
    Ok(line.to_owned())
}

fn file(what: &'static str, path: &Path, why: &dyn Display) -> EtcdError {
    EtcdError::File { what, path: path.display().to_string(), why: why.to_string() }
}

/// Connects to one member.
pub(super) async fn channel(
    endpoint: &Endpoint,
    tls: Option<&TlsConnector>,
) -> Result<Channel, EtcdError> {
    let unreachable = |source| EtcdError::Connect { endpoint: endpoint.to_string(), source };
    let socket = TcpStream::connect((endpoint.host.as_str(), endpoint.port)).await;
    let socket = socket.map_err(unreachable)?;
    socket.set_nodelay(true).map_err(unreachable)?;
    let Some(tls) = tls.filter(|_| endpoint.is_secure) else {
        return over(socket, endpoint).await;
    };
    let name = ServerName::try_from(endpoint.host.clone());
    let name = name.map_err(|error| unreachable(io::Error::other(error)))?;
    let secure = tls.connect(name, socket).await.map_err(|error| EtcdError::Tls {
        endpoint: endpoint.to_string(),
        why: in_words(&error),
    })?;
    over(secure, endpoint).await
}

async fn over(
    socket: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    endpoint: &Endpoint,
) -> Result<Channel, EtcdError> {
    let lost = |why: h2::Error| EtcdError::Lost {
        endpoint: endpoint.to_string(),
        why: match why.get_io().filter(|error| error.kind() == io::ErrorKind::InvalidData) {
            // A refusal of our certificate comes after the handshake of TLS 1.3.
            Some(error) => format!("TLS: {error}"),
            None => why.to_string(),
        },
    };
    let (send, connection) = client::Builder::new()
        .initial_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .handshake::<_, Bytes>(socket)
        .await
        .map_err(lost)?;
    // How it ends is told by its streams.
    tokio::spawn(connection);
    Ok(Channel { send, endpoint: endpoint.to_string(), token: None })
}

/// Room for a whole configuration.
const WINDOW: u32 = 4 << 20;

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use loadline_core::{cluster::WhenAway, time::Duration, units::Ratio};
    use tokio::{join, net::TcpListener};

    use super::*;
    use crate::tls::tests::self_signed;

    fn settings(endpoint: &Endpoint, authorities: &Path) -> Settings {
        Settings {
            endpoints: vec![endpoint.clone()],
            authorities: Some(authorities.to_owned()),
            certificate: None,
            user: None,
            prefix: "/loadline/".to_owned(),
            id: None,
            name: "edge-1".to_owned(),
            lease: Duration::from_secs(10),
            election_timeout: Duration::from_secs(1),
            floor: Ratio::percent(5),
            max_edges: 2,
            when_away: WhenAway::Floor,
            share_health: false,
            state_dir: PathBuf::new(),
        }
    }

    #[tokio::test]
    async fn a_self_signed_certificate_of_an_authority_is_enough_where_the_file_has_it() {
        let (server, file) = self_signed(&[]);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let endpoint = Endpoint { is_secure: true, host: "127.0.0.1".to_owned(), port };
        let connector = tls(&settings(&endpoint, file.path())).unwrap();
        let accept = async { server.accept(listener.accept().await.unwrap().0).await };
        let (connected, accepted) = join!(channel(&endpoint, connector.as_ref()), accept);
        connected.unwrap();
        accepted.unwrap();
    }
}
