//! Addresses of exports: NBD URIs, which may be used in place of the path of a device.

use crate::Identity;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};

/// The schemes; true if the export is reached through a Unix socket.
const SCHEMES: [(&str, bool); 4] =
    [("nbd://", false), ("nbds://", false), ("nbd+unix://", true), ("nbds+unix://", true)];

/// The port if the URI has none.
const PORT: &str = "10809";

/// An export of a server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ServerAddress {
    /// The host, or the path of the Unix socket.
    server: String,
    port: String,
    export: String,
}

/// True if a path is the URI of an export, not the path of a file.
pub fn is_server(path: &Path) -> bool {
    scheme_of(path).is_some()
}

/// Returns a path that means the same in every directory; a URI stays as it is.
pub fn absolute_path(path: &Path) -> io::Result<PathBuf> {
    if is_server(path) { Ok(path.to_path_buf()) } else { std::path::absolute(path) }
}

/// Returns the path of a device as a folder names it: a relative path is within the folder.
pub fn path_in(folder: &Path, path: &Path) -> PathBuf {
    if is_server(path) { path.to_path_buf() } else { folder.join(path) }
}

/// Returns the rest of a URI behind its scheme, and true if the scheme is that of a Unix socket.
fn scheme_of(path: &Path) -> Option<(&str, bool)> {
    let text = path.to_str()?;
    SCHEMES.iter().find_map(|&(scheme, is_socket)| Some((text.strip_prefix(scheme)?, is_socket)))
}

impl ServerAddress {
    /// Parses the URI of an export.
    ///
    /// Errors: a text about what is missing.
    pub fn parse(path: &Path) -> Result<ServerAddress, String> {
        let (rest, is_socket) = scheme_of(path).ok_or("it is no URI of NBD, such as nbd://host/export")?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, export) = rest.split_once('/').unwrap_or((rest, ""));
        if is_socket {
            let socket = query.split(['&', ';']).find_map(|one| one.strip_prefix("socket="));
            let server = socket.unwrap_or_default().replace("%2F", "/").replace("%2f", "/");
            if !server.starts_with('/') || !authority.is_empty() {
                let example = "nbd+unix:///export?socket=/run/disk.sock";
                return Err(format!("give the socket by its whole path: {example}"));
            }
            return Ok(ServerAddress { server, port: String::new(), export: export.into() });
        }
        let place = authority.rsplit_once('@').map_or(authority, |(_, place)| place);
        let bracketed = place.strip_prefix('[').and_then(|rest| rest.split_once(']'));
        let (host, port) = match bracketed {
            Some((host, rest)) => (host, rest.strip_prefix(':')),
            None => place.split_once(':').map_or((place, None), |(host, port)| (host, Some(port))),
        };
        let port = port.unwrap_or(PORT);
        if host.is_empty() || !port.parse::<u16>().is_ok_and(|port| port > 0) {
            return Err("give the host, and a port unless it is 10809: nbd://host:port/export".into());
        }
        Ok(ServerAddress { server: host.to_lowercase(), port: port.into(), export: export.into() })
    }

    /// Returns the host, or the path of the Unix socket: exports of one server fail together.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Returns the identity of the export, the same for every spelling of its URI.
    pub fn identity(&self) -> Identity {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        Identity::Server { export: hasher.finish() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(uri: &str) -> Result<ServerAddress, String> {
        ServerAddress::parse(Path::new(uri))
    }

    #[test]
    fn an_export_is_one_device_under_every_spelling() {
        let number = |uri| parsed(uri).expect(uri).identity();
        for same in ["nbd://Shelf:10809/a", "nbds://shelf/a?tls-certificates=/etc/pki", "nbds://me@shelf/a"] {
            assert_eq!(number(same), number("nbd://shelf/a"), "{same}");
        }
        for other in ["nbd://shelf/b", "nbd://shelf:2/a", "nbd://shelf", "nbd+unix:///a?socket=/shelf"] {
            assert_ne!(number(other), number("nbd://shelf/a"), "{other}");
        }
        assert_eq!(parsed("nbd://[::1]:9/x").expect("IPv6").server(), "::1");
        assert_eq!(parsed("nbd+unix:///x?socket=/run/d").expect("a socket").server(), "/run/d");
    }

    #[test]
    fn a_uri_without_a_place_is_refused_in_words() {
        for wrong in ["nbd:///x", "nbd://h:0/x", "nbd://h:port/x", "nbd://", "file:///x", "/dev/nbd0"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
        for wrong in ["nbd+unix:///x", "nbd+unix:///x?socket=d.sock", "nbd+unix://h/x?socket=/d"] {
            assert!(parsed(wrong).expect_err(wrong).contains("whole path"), "{wrong}");
        }
    }

    #[test]
    fn a_uri_stays_as_it_is_in_every_folder() {
        let uri = Path::new("nbd://h/x");
        assert_eq!(path_in(Path::new("/vol"), uri).as_os_str(), uri.as_os_str());
        assert_eq!(absolute_path(uri).expect("a URI").as_os_str(), uri.as_os_str());
        assert_eq!(path_in(Path::new("/vol"), Path::new("d0")), Path::new("/vol/d0"));
        assert!(!is_server(Path::new("nbd/file")) && !is_server(Path::new("/dev/nbd0")));
    }
}
