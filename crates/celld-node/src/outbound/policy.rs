//! Which addresses scripts may reach.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Decides about each address that a script's request would connect to, after its name was
/// resolved, so that a name cannot smuggle an address in.
pub trait OutboundPolicy: Send + Sync + 'static {
    /// True when a connection to `addr` is allowed.
    fn allows(&self, addr: SocketAddr) -> bool;
}

/// Everything is allowed: the policy of `celld dev`, and of `celld run --allow-private-network`.
#[derive(Clone, Copy, Debug, Default)]
pub struct AllowAll;

impl OutboundPolicy for AllowAll {
    fn allows(&self, _addr: SocketAddr) -> bool {
        true
    }
}

/// Only the public internet: no loopback, private, link-local (cloud metadata among it),
/// multicast or reserved addresses, in whatever form IPv6 may wrap them.
#[derive(Clone, Copy, Debug, Default)]
pub struct PublicOnly;

impl OutboundPolicy for PublicOnly {
    fn allows(&self, addr: SocketAddr) -> bool {
        match addr.ip() {
            IpAddr::V4(ip) => is_public_v4(ip),
            IpAddr::V6(ip) => is_public_v6(ip),
        }
    }
}

/// IANA's registry of special-purpose IPv4 addresses, and multicast.
fn is_public_v4(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    let special = match a {
        0 | 10 | 127 | 224..=255 => true,
        100 => b & 0xc0 == 64,
        169 => b == 254,
        172 => b & 0xf0 == 16,
        192 => matches!((b, c), (168, _) | (0, 0) | (0, 2) | (88, 99)),
        198 => matches!((b, c), (18 | 19, _) | (51, 100)),
        203 => (b, c) == (0, 113),
        _ => false,
    };
    !special
}

/// Public unicast is `2000::/3` without its special parts; an address that wraps an IPv4 one is
/// judged by that.
fn is_public_v6(ip: Ipv6Addr) -> bool {
    let s = ip.segments();
    let embedded = |high: u16, low: u16| {
        is_public_v4(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low)))
    };
    match s {
        // Mapped.
        [0, 0, 0, 0, 0, 0xffff, high, low] => embedded(high, low),
        // NAT64.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => embedded(high, low),
        // 6to4.
        [0x2002, high, low, ..] => embedded(high, low),
        // IETF protocol assignments (Teredo among them) and documentation.
        [0x2001, 0..=0x1ff, ..] | [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => false,
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(ip: &str) -> bool {
        PublicOnly.allows(SocketAddr::new(ip.parse().unwrap(), 80))
    }

    #[test]
    fn addresses_of_the_machine_and_its_network_are_refused() {
        for ip in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "127.0.0.1",
            "127.255.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.1",
            "192.168.1.1",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "fe80::1",
            "fc00::1",
            "fd00:ec2::254",
            "ff02::1",
            "2001:db8::1",
            "2001::1",
            "fec0::1",
            "100::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::a00:1",
            "2002:7f00:1::",
            "::7f00:1",
            "64:ff9b:1::1",
        ] {
            assert!(!allows(ip), "{ip}");
        }
    }

    #[test]
    fn the_public_internet_is_allowed() {
        for ip in [
            "1.1.1.1",
            "8.8.8.8",
            "100.63.0.1",
            "100.128.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "169.253.0.1",
            "223.255.0.1",
            "2606:4700::1111",
            "2a00:1450::1",
            "::ffff:1.1.1.1",
            "64:ff9b::101:101",
            "2002:101:101::",
        ] {
            assert!(allows(ip), "{ip}");
        }
    }
}
