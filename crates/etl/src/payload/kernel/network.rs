//! TCP and UDP.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::field::{Pointer, Port, Record, record};
use crate::payload::Visitor;

/// Addresses and ports of one transfer, in either family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endpoints {
    pub destination: (IpAddr, u16),
    pub source: (IpAddr, u16),
}

macro_rules! transfer {
    ($(#[$meta:meta])* $name:ident, $address:ty) => {
        record! {
            $(#[$meta])*
            $name {
                process_id: u32 = "PID",
                size: u32 = "size",
                destination: $address = "daddr",
                source: $address = "saddr",
                destination_port: Port = "dport",
                source_port: Port = "sport",
                sequence_number: u32 = "seqnum",
                connection: Pointer = "connid",
            }
        }
    };
}

macro_rules! send {
    ($(#[$meta:meta])* $name:ident, $address:ty) => {
        record! {
            $(#[$meta])*
            $name {
                process_id: u32 = "PID",
                size: u32 = "size",
                destination: $address = "daddr",
                source: $address = "saddr",
                destination_port: Port = "dport",
                source_port: Port = "sport",
                start_time: u32 = "startime",
                end_time: u32 = "endtime",
                sequence_number: u32 = "seqnum",
                connection: Pointer = "connid",
            }
        }
    };
}

macro_rules! connect {
    ($(#[$meta:meta])* $name:ident, $address:ty) => {
        record! {
            $(#[$meta])*
            $name {
                process_id: u32 = "PID",
                size: u32 = "size",
                destination: $address = "daddr",
                source: $address = "saddr",
                destination_port: Port = "dport",
                source_port: Port = "sport",
                mss: u16 = "mss",
                sack_option: u16 = "sackopt",
                timestamp_option: u16 = "tsopt",
                window_scale_option: u16 = "wsopt",
                receive_window: u32 = "rcvwin",
                receive_window_scale: i16 = "rcvwinscale",
                send_window_scale: i16 = "sndwinscale",
                sequence_number: u32 = "seqnum",
                connection: Pointer = "connid",
            }
        }
    };
}

transfer! {
    /// TCP 0x060B receive, 0D disconnect, 0E retransmit, 10 reconnect, 12 copy; UDP 0x080A send, 0B receive.
    TransferV4, Ipv4Addr
}
transfer! {
    /// TCP 0x061B receive, 1D disconnect, 1E retransmit, 20 reconnect, 22 copy; UDP 0x081A send, 1B receive.
    TransferV6, Ipv6Addr
}
send! {
    /// 0x060A.
    TcpSendV4, Ipv4Addr
}
send! {
    /// 0x061A.
    TcpSendV6, Ipv6Addr
}
connect! {
    /// 0x060C connect, 0F accept.
    TcpConnectV4, Ipv4Addr
}
connect! {
    /// 0x061C connect, 1F accept.
    TcpConnectV6, Ipv6Addr
}

record! {
    /// 0x0611 TCP, 0x0811 UDP.
    NetworkFailure {
        protocol: u16 = "Proto",
        failure_code: u16 = "FailureCode",
    }
}

/// Any event that moves bytes between two endpoints.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Network {
    TransferV4(TransferV4),
    TransferV6(TransferV6),
    SendV4(TcpSendV4),
    SendV6(TcpSendV6),
    ConnectV4(TcpConnectV4),
    ConnectV6(TcpConnectV6),
}

macro_rules! each {
    ($network:expr, $event:ident => $result:expr) => {
        match $network {
            Network::TransferV4($event) => $result,
            Network::TransferV6($event) => $result,
            Network::SendV4($event) => $result,
            Network::SendV6($event) => $result,
            Network::ConnectV4($event) => $result,
            Network::ConnectV6($event) => $result,
        }
    };
}

impl Network {
    pub fn process_id(&self) -> u32 {
        each!(self, event => event.process_id)
    }

    pub fn size(&self) -> u32 {
        each!(self, event => event.size)
    }

    pub fn endpoints(&self) -> Endpoints {
        each!(self, event => Endpoints {
            destination: (event.destination.into(), event.destination_port.0),
            source: (event.source.into(), event.source_port.0),
        })
    }

    pub(super) fn visit<V: Visitor + ?Sized>(&self, visitor: &mut V) {
        each!(self, event => event.visit(visitor));
    }
}
