//! Network traffic of processes: the kernel counts per TCP socket, and `/proc/PID/fd` maps sockets to processes.
//!
//! Needs no privileges for processes of the same user. Not included: sockets opened and closed between two reads, UDP
//! and local sockets, and processes in another network namespace.

use std::collections::HashMap;
use std::os::fd::{BorrowedFd, OwnedFd};

use ortscope_core::schema::ProcessSampleRow;
use ortscope_decode::sock_diag::{self, Answer, TcpSocket};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink};

use super::files::{self, Path};
use crate::sampler::ReadError;

/// Limit for tracked sockets; further ones are not counted.
const MAX_SOCKETS: usize = 200_000;
/// Limit for inspected descriptors per process.
const MAX_DESCRIPTORS: usize = 20_000;
/// The kernel's datagrams have at most 32 KB.
const DATAGRAM_BYTES: usize = 64 * 1024;

/// All TCP sockets of our network namespace, queried once per tick.
#[derive(Debug, Default)]
pub(super) struct Sockets {
    connection: Option<OwnedFd>,
    by_inode: HashMap<u32, TcpSocket>,
    asked_ns: u64,
    buffer: Vec<u8>,
    own_namespace: Option<u64>,
}

/// Totals of one process.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    /// Last values of its sockets: after a close, this was the socket's share.
    sockets: HashMap<u32, Totals>,
    closed: Totals,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Totals {
    received_bytes: u64,
    sent_bytes: u64,
    received_packets: u64,
    sent_packets: u64,
}

impl Totals {
    fn of(socket: &TcpSocket) -> Self {
        Self {
            received_bytes: socket.received_bytes.unwrap_or(0),
            sent_bytes: socket.sent_bytes.unwrap_or(0),
            received_packets: socket.received_packets.unwrap_or(0),
            sent_packets: socket.sent_packets.unwrap_or(0),
        }
    }

    fn add(&mut self, other: Self) {
        self.received_bytes = self.received_bytes.saturating_add(other.received_bytes);
        self.sent_bytes = self.sent_bytes.saturating_add(other.sent_bytes);
        self.received_packets = self.received_packets.saturating_add(other.received_packets);
        self.sent_packets = self.sent_packets.saturating_add(other.sent_packets);
    }
}

impl Sockets {
    /// Queries the kernel, at most once per tick.
    fn refresh(&mut self, now_ns: u64) -> Result<(), ReadError> {
        if self.asked_ns == now_ns && self.connection.is_some() {
            return Ok(());
        }
        if self.connection.is_none() {
            self.connection = Some(connect().map_err(files::read_error)?);
            self.own_namespace = namespace("self");
            self.buffer.resize(DATAGRAM_BYTES, 0);
        }
        self.asked_ns = now_ns;
        self.by_inode.clear();
        for family in [libc::AF_INET, libc::AF_INET6] {
            self.query(family as u8).inspect_err(|_| self.connection = None)?;
        }
        Ok(())
    }

    fn query(&mut self, family: u8) -> Result<(), ReadError> {
        let connection = self.connection.as_ref().ok_or(ReadError::Unsupported)?;
        let request = sock_diag::request(family, u32::from(family));
        rustix::net::send(connection, &request, SendFlags::empty()).map_err(files::read_error)?;
        loop {
            let (length, _) = rustix::net::recv(connection, &mut self.buffer[..], RecvFlags::empty())
                .map_err(files::read_error)?;
            let by_inode = &mut self.by_inode;
            let answer = sock_diag::read(&self.buffer[..length], &mut |socket| {
                if socket.inode != 0 && by_inode.len() < MAX_SOCKETS {
                    by_inode.insert(socket.inode, socket);
                }
            });
            match answer {
                Answer::Incomplete if length > 0 => {}
                Answer::Incomplete | Answer::Done => return Ok(()),
                Answer::Refused(_) => return Err(ReadError::Unsupported),
                Answer::Unreadable => {
                    return Err(ReadError::Failed("the socket list has an unknown format".into()));
                }
            }
        }
    }

    /// Fills the network columns. `fd` is the directory of the process's open descriptors.
    pub fn read(
        &mut self,
        pid: u32,
        fd: BorrowedFd<'_>,
        now_ns: u64,
        scratch: &mut Vec<u8>,
        traffic: &mut Traffic,
        row: &mut ProcessSampleRow,
    ) -> Result<(), ReadError> {
        self.refresh(now_ns)?;
        let of_process = namespace(&pid.to_string());
        if of_process.is_some() && of_process != self.own_namespace {
            return Err(ReadError::Unsupported);
        }
        let mut descriptors = Vec::new();
        files::each_number(fd, scratch, |number| {
            if descriptors.len() < MAX_DESCRIPTORS {
                descriptors.push(number);
            }
        })
        .map_err(files::read_error)?;
        let (mut open, mut connections) = (HashMap::new(), 0);
        for descriptor in descriptors {
            let Some(socket) = socket_inode(fd, descriptor).and_then(|inode| self.by_inode.get(&inode))
            else {
                continue;
            };
            // A socket may be open twice.
            if open.insert(socket.inode, Totals::of(socket)).is_none() {
                connections += u64::from(socket.is_established);
            }
        }
        let mut total = traffic.update(open);
        total.add(traffic.closed);
        row.network_received_bytes = Some(total.received_bytes);
        row.network_sent_bytes = Some(total.sent_bytes);
        row.network_received_packets = Some(total.received_packets);
        row.network_sent_packets = Some(total.sent_packets);
        row.network_connections = Some(connections);
        Ok(())
    }
}

impl Traffic {
    /// Sums the open sockets; closed ones are added to the closed total.
    fn update(&mut self, open: HashMap<u32, Totals>) -> Totals {
        let gone = self.sockets.iter().filter(|(inode, _)| !open.contains_key(inode));
        gone.for_each(|(_, totals)| self.closed.add(*totals));
        self.sockets = open;
        let mut sum = Totals::default();
        self.sockets.values().for_each(|totals| sum.add(*totals));
        sum
    }
}

fn connect() -> Result<OwnedFd, rustix::io::Errno> {
    let connection = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        Some(netlink::SOCK_DIAG),
    )?;
    rustix::net::connect(&connection, &netlink::SocketAddrNetlink::new(0, 0))?;
    Ok(connection)
}

fn namespace(process: &str) -> Option<u64> {
    let link = std::fs::read_link(format!("/proc/{process}/ns/net")).ok()?;
    link.to_str()?.strip_prefix("net:[")?.strip_suffix(']')?.parse().ok()
}

/// Inode of a descriptor that is a socket.
fn socket_inode(directory: BorrowedFd<'_>, descriptor: u32) -> Option<u32> {
    let path = Path::new(format_args!("{descriptor}"));
    let mut buffer = [0u8; 64];
    let length = rustix::fs::readlinkat_raw(directory, path.as_c_str(), &mut buffer[..]).ok()?;
    std::str::from_utf8(&buffer[..length]).ok()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn loopback_traffic_is_counted_and_kept_after_close() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        let text = vec![7u8; 100_000];
        let mut received = vec![0; 100_000];
        std::thread::scope(|scope| {
            scope.spawn(|| near.write_all(&text).unwrap());
            far.read_exact(&mut received).unwrap();
        });
        let (mut sockets, mut traffic, mut scratch) = (Sockets::default(), Traffic::default(), Vec::new());
        let mut look = |now_ns: u64| {
            let fd = files::open_directory(files::no_directory(), c"/proc/self/fd").unwrap();
            let mut row = ProcessSampleRow::default();
            sockets
                .read(std::process::id(), fd.as_fd(), now_ns, &mut scratch, &mut traffic, &mut row)
                .unwrap();
            row
        };
        let row = look(1);
        // Both ends are ours. Acknowledgements may arrive a moment after the bytes.
        assert!(row.network_received_bytes.unwrap() >= 100_000, "{row:?}");
        assert!(row.network_connections.unwrap() >= 2 && row.network_sent_packets.unwrap() > 0, "{row:?}");
        drop((near, far));
        let later = look(2);
        assert!(later.network_received_bytes >= row.network_received_bytes, "{later:?}");
    }
}
