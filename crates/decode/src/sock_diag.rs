//! Responses of Linux's `NETLINK_SOCK_DIAG`: every TCP socket with its traffic.
//!
//! Layouts from `include/uapi/linux/{netlink,inet_diag,tcp}.h`; numbers are in native byte order. Newer kernels append
//! fields, older ones have fewer: missing fields are `None`.

const MESSAGE_HEADER: usize = 16;
const SOCKET_BYTES: usize = 72;
const ATTRIBUTE_HEADER: usize = 4;

const DONE: u16 = 3;
const ERROR: u16 = 2;
const SOCKETS_BY_FAMILY: u16 = 20;
const TCP_INFO: u16 = 2;
/// `TCP_LISTEN`.
const LISTENS: u8 = 10;
/// `TCP_ESTABLISHED`.
const IS_ESTABLISHED: u8 = 1;

/// A request for all TCP sockets of a family, with their counters.
pub fn request(family: u8, sequence: u32) -> [u8; 72] {
    const REQUEST_AND_DUMP: u16 = 0x0301;
    const TCP: u8 = 6;
    const EVERY_STATE: u32 = u32::MAX;
    let mut bytes = [0; 72];
    let length = bytes.len() as u32;
    bytes[..4].copy_from_slice(&length.to_ne_bytes());
    bytes[4..6].copy_from_slice(&SOCKETS_BY_FAMILY.to_ne_bytes());
    bytes[6..8].copy_from_slice(&REQUEST_AND_DUMP.to_ne_bytes());
    bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
    bytes[16] = family;
    bytes[17] = TCP;
    bytes[18] = 1 << (TCP_INFO - 1);
    bytes[20..24].copy_from_slice(&EVERY_STATE.to_ne_bytes());
    bytes
}

/// One TCP socket. Counts are since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TcpSocket {
    /// As in the links of `/proc/PID/fd`; 0 for a socket that no process has open.
    pub inode: u32,
    pub is_listening: bool,
    pub is_established: bool,
    /// Acknowledged by the peer.
    pub sent_bytes: Option<u64>,
    pub received_bytes: Option<u64>,
    /// Segments, including those without data.
    pub sent_packets: Option<u64>,
    pub received_packets: Option<u64>,
}

/// How a response ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// There is more to read.
    Incomplete,
    Done,
    /// With the system's error number.
    Refused(i32),
    /// The bytes are not a response to such a request.
    Unreadable,
}

/// Reads the messages of one datagram.
pub fn read(bytes: &[u8], emit: &mut impl FnMut(TcpSocket)) -> Answer {
    let mut rest = bytes;
    while !rest.is_empty() {
        let (Some(length), Some(kind)) = (u32_at(rest, 0), u16_at(rest, 4)) else {
            return Answer::Unreadable;
        };
        let length = length as usize;
        let Some(body) = rest.get(MESSAGE_HEADER..length) else { return Answer::Unreadable };
        match kind {
            DONE => return Answer::Done,
            ERROR => {
                return Answer::Refused(u32_at(body, 0).map_or(0, |number| (number as i32).wrapping_neg()));
            }
            SOCKETS_BY_FAMILY => match socket(body) {
                Some(socket) => emit(socket),
                None => return Answer::Unreadable,
            },
            _ => {}
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Answer::Incomplete
}

fn socket(body: &[u8]) -> Option<TcpSocket> {
    let state = *body.get(1)?;
    let mut socket = TcpSocket {
        inode: u32_at(body, SOCKET_BYTES - 4)?,
        is_listening: state == LISTENS,
        is_established: state == IS_ESTABLISHED,
        ..TcpSocket::default()
    };
    let mut rest = body.get(SOCKET_BYTES..)?;
    while let (Some(length), Some(kind)) = (u16_at(rest, 0), u16_at(rest, 2)) {
        let Some(info) = rest.get(ATTRIBUTE_HEADER..usize::from(length)) else { break };
        if kind == TCP_INFO {
            socket.sent_bytes = u64_at(info, 120);
            socket.received_bytes = u64_at(info, 128);
            socket.sent_packets = u32_at(info, 136).map(u64::from);
            socket.received_packets = u32_at(info, 140).map(u64::from);
        }
        rest = rest.get(usize::from(length).next_multiple_of(4)..).unwrap_or_default();
    }
    Some(socket)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut bytes = ((MESSAGE_HEADER + body.len()) as u32).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend([0; 10]);
        bytes.extend(body);
        bytes
    }

    fn socket_body(state: u8, inode: u32, info_bytes: usize) -> Vec<u8> {
        let mut body = vec![0; SOCKET_BYTES];
        body[1] = state;
        body[68..72].copy_from_slice(&inode.to_ne_bytes());
        let mut info: Vec<u8> = vec![0; 144];
        info[120..128].copy_from_slice(&1000u64.to_ne_bytes());
        info[128..136].copy_from_slice(&2000u64.to_ne_bytes());
        info[136..140].copy_from_slice(&3u32.to_ne_bytes());
        info[140..144].copy_from_slice(&4u32.to_ne_bytes());
        info.truncate(info_bytes);
        body.extend(((ATTRIBUTE_HEADER + info.len()) as u16).to_ne_bytes());
        body.extend(TCP_INFO.to_ne_bytes());
        body.extend(info);
        body
    }

    fn sockets(bytes: &[u8]) -> (Vec<TcpSocket>, Answer) {
        let mut sockets = Vec::new();
        let answer = read(bytes, &mut |socket| sockets.push(socket));
        (sockets, answer)
    }

    #[test]
    fn sockets_have_their_counts() {
        let mut bytes = message(SOCKETS_BY_FAMILY, &socket_body(IS_ESTABLISHED, 77, 144));
        bytes.extend(message(SOCKETS_BY_FAMILY, &socket_body(LISTENS, 78, 104)));
        bytes.extend(message(DONE, &[0; 4]));
        let (sockets, answer) = sockets(&bytes);
        assert_eq!(answer, Answer::Done);
        assert_eq!(
            sockets[0],
            TcpSocket {
                inode: 77,
                is_listening: false,
                is_established: true,
                sent_bytes: Some(1000),
                received_bytes: Some(2000),
                sent_packets: Some(3),
                received_packets: Some(4),
            }
        );
        // An old kernel reports less.
        assert_eq!(sockets[1], TcpSocket { inode: 78, is_listening: true, ..TcpSocket::default() });
    }

    #[test]
    fn errors_and_arbitrary_bytes_are_handled() {
        assert_eq!(sockets(&message(ERROR, &(-13i32).to_ne_bytes())).1, Answer::Refused(13));
        assert_eq!(sockets(&[]).1, Answer::Incomplete);
        assert_eq!(sockets(&[1, 2, 3]).1, Answer::Unreadable);
        let whole = message(SOCKETS_BY_FAMILY, &socket_body(1, 77, 144));
        for length in 0..whole.len() {
            sockets(&whole[..length]);
        }
        for position in 0..whole.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut bytes = whole.clone();
                bytes[position] = value;
                sockets(&bytes);
            }
        }
    }
}
