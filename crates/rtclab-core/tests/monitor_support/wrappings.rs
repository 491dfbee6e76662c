//! IP packets in the frames of every link type and tunnel that the monitor reads, written by hand after their
//! specifications.

/// How an IP packet is put into a frame.
pub(crate) struct Wrapping {
    pub(crate) name: &'static str,
    pub(crate) link_type: u32,
    pub(crate) wrap: fn(&[u8]) -> Vec<u8>,
    /// What the monitor calls the tunnels.
    pub(crate) tunnels: &'static [&'static str],
}

const fn wrapping(
    name: &'static str,
    link_type: u32,
    tunnels: &'static [&'static str],
    wrap: fn(&[u8]) -> Vec<u8>,
) -> Wrapping {
    Wrapping { name, link_type, wrap, tunnels }
}

fn is_v6(ip: &[u8]) -> bool {
    ip[0] >> 4 == 6
}

fn ethertype(ip: &[u8]) -> u16 {
    if is_v6(ip) { 0x86DD } else { 0x0800 }
}

fn ppp_protocol(ip: &[u8]) -> u16 {
    if is_v6(ip) { 0x0057 } else { 0x0021 }
}

fn typed(number: u16, content: &[u8]) -> Vec<u8> {
    [&number.to_be_bytes()[..], content].concat()
}

/// A frame of Ethernet, padded to the 60 bytes of the shortest one.
pub(crate) fn ethernet(ethertype: u16, content: &[u8]) -> Vec<u8> {
    let mut frame =
        [&[2, 0, 0, 0, 0, 2, 0x42, 0, 0, 0, 0, 1][..], &typed(ethertype, content)].concat();
    frame.resize(frame.len().max(60), 0);
    frame
}

fn ethernet_ip(ip: &[u8]) -> Vec<u8> {
    ethernet(ethertype(ip), ip)
}

/// An IPv4 packet between the ends of a tunnel.
pub(crate) fn outer_ip(protocol: u8, content: &[u8]) -> Vec<u8> {
    let total = (20 + content.len()) as u16;
    let mut packet = vec![0x45, 0];
    packet.extend_from_slice(&total.to_be_bytes());
    packet.extend_from_slice(&[0, 0, 0, 0, 64, protocol, 0, 0, 203, 0, 113, 1, 203, 0, 113, 2]);
    packet.extend_from_slice(content);
    packet
}

fn outer_ipv6(protocol: u8, content: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend_from_slice(&(content.len() as u16).to_be_bytes());
    packet.extend_from_slice(&[protocol, 64]);
    packet.extend_from_slice(&[0x20; 16]);
    packet.extend_from_slice(&[0x21; 16]);
    packet.extend_from_slice(content);
    packet
}

/// A datagram between the ends of a tunnel, in Ethernet.
pub(crate) fn outer_udp(port: u16, content: &[u8]) -> Vec<u8> {
    ethernet(0x0800, &outer_ip(17, &super::udp(50_000, port, content)))
}

fn gre(flags: u16, ethertype: u16, fields: &[u8], content: &[u8]) -> Vec<u8> {
    let header = [flags.to_be_bytes(), ethertype.to_be_bytes()].concat();
    ethernet(0x0800, &outer_ip(47, &[&header, fields, content].concat()))
}

fn snap(ip: &[u8]) -> Vec<u8> {
    [&[0xAA, 0xAA, 3, 0, 0, 0][..], &typed(ethertype(ip), ip)].concat()
}

/// A frame of 802.11 with what follows the third address and the fragment number, and a checksum behind it.
fn wlan(control: [u8; 2], rest: &[u8], ip: &[u8]) -> Vec<u8> {
    let addresses = [&[0, 0][..], &[2; 18], &[0x10, 0x20]].concat();
    [&control, &addresses[..], rest, &snap(ip), &[0xFC; 4]].concat()
}

fn plain_wlan(ip: &[u8]) -> Vec<u8> {
    wlan([0x08, 0x01], &[], ip)
}

fn pppoe(ip: &[u8]) -> Vec<u8> {
    let ppp = typed(ppp_protocol(ip), ip);
    [&[0x11, 0, 0, 7][..], &(ppp.len() as u16).to_be_bytes(), &ppp].concat()
}

fn gtp_u(flags: u8, options: &[u8], ip: &[u8]) -> Vec<u8> {
    let length = ((options.len() + ip.len()) as u16).to_be_bytes();
    let header = [0x30 | flags, 0xFF, length[0], length[1], 0, 0, 0, 9];
    outer_udp(2152, &[&header, options, ip].concat())
}

fn vxlan(port: u16, first: [u8; 4], content: &[u8]) -> Vec<u8> {
    outer_udp(port, &[&first[..], &[0, 0, 7, 0], content].concat())
}

fn pktap(link_type: u8, content: &[u8]) -> Vec<u8> {
    let mut header = vec![108, 0, 0, 0, 1, 0, 0, 0, link_type, 0, 0, 0];
    header.extend_from_slice(b"en0");
    header.resize(108, 0);
    [&header, content].concat()
}

fn nflog(order: fn(u16) -> [u8; 2], ip: &[u8]) -> Vec<u8> {
    let family = if is_v6(ip) { 10 } else { 2 };
    let mut frame = vec![family, 0, 0, 5];
    for (kind, value) in [(1, &[8, 0, 1, 0][..]), (10, b"calls\0"), (9, ip)] {
        frame.extend_from_slice(&order(4 + value.len() as u16));
        frame.extend_from_slice(&order(kind));
        frame.extend_from_slice(value);
        frame.resize(frame.len().next_multiple_of(4), 0);
    }
    frame
}

fn cooked(device: u16, protocol: u16, content: &[u8]) -> Vec<u8> {
    [&[0, 0][..], &typed(device, &[0; 10]), &typed(protocol, content)].concat()
}

/// All of them; the plain packet is the first.
pub(crate) const WRAPPINGS: &[Wrapping] = &[
    wrapping("raw IP", 101, &[], |ip| ip.to_vec()),
    wrapping("raw IP of BSD", 12, &[], |ip| ip.to_vec()),
    wrapping("Ethernet", 1, &[], ethernet_ip),
    wrapping("VLAN", 1, &[], |ip| ethernet(0x8100, &typed(7, &typed(ethertype(ip), ip)))),
    wrapping("QinQ", 1, &[], |ip| {
        ethernet(0x88A8, &typed(7, &typed(0x8100, &typed(8, &typed(ethertype(ip), ip)))))
    }),
    wrapping("backbone bridges", 1, &[], |ip| {
        ethernet(0x88E7, &[&[0, 0, 0, 7][..], &ethernet_ip(ip)].concat())
    }),
    wrapping("SNAP in 802.3", 1, &[], |ip| ethernet(8 + ip.len() as u16, &snap(ip))),
    wrapping("BSD loopback", 0, &[], |ip| {
        [&[if is_v6(ip) { 30 } else { 2 }, 0, 0, 0][..], ip].concat()
    }),
    wrapping("OpenBSD loopback", 108, &[], |ip| {
        [&[0, 0, 0, if is_v6(ip) { 24 } else { 2 }][..], ip].concat()
    }),
    wrapping("cooked", 113, &[], |ip| cooked(1, ethertype(ip), ip)),
    wrapping("cooked 802.2", 113, &[], |ip| cooked(1, 4, &snap(ip))),
    wrapping("cooked radiotap", 113, &[], |ip| {
        cooked(803, 0, &[&[0, 0, 8, 0, 0, 0, 0, 0][..], &plain_wlan(ip)].concat())
    }),
    wrapping("cooked 2", 276, &[], |ip| typed(ethertype(ip), &[&[0; 18][..], ip].concat())),
    wrapping("PPP", 9, &[], |ip| typed(ppp_protocol(ip), ip)),
    wrapping("PPP in HDLC", 9, &[], |ip| typed(0xFF03, &typed(ppp_protocol(ip), ip))),
    wrapping("PPP in HDLC framing", 50, &[], |ip| typed(0xFF03, &typed(ppp_protocol(ip), ip))),
    wrapping("PPP with a short protocol field", 50, &[], |ip| {
        [&[0xFF, 3, ppp_protocol(ip) as u8][..], ip].concat()
    }),
    wrapping("PPP with a direction", 204, &[], |ip| {
        [&[0, 0xFF, 3][..], &typed(ppp_protocol(ip), ip)].concat()
    }),
    wrapping("Cisco HDLC in PPP", 50, &[], |ip| typed(0x0F00, &typed(ethertype(ip), ip))),
    wrapping("Cisco HDLC", 104, &[], |ip| typed(0x8F00, &typed(ethertype(ip), ip))),
    wrapping("PPPoE", 1, &["PPPoE"], |ip| ethernet(0x8864, &pppoe(ip))),
    wrapping("PPPoE in a VLAN", 1, &["PPPoE"], |ip| {
        ethernet(0x8100, &typed(7, &typed(0x8864, &pppoe(ip))))
    }),
    wrapping("PPPoE without Ethernet", 51, &["PPPoE"], pppoe),
    wrapping("802.11", 105, &[], plain_wlan),
    wrapping("802.11 QoS", 105, &[], |ip| wlan([0x88, 0x02], &[5, 0], ip)),
    wrapping("802.11 QoS with HT control", 105, &[], |ip| {
        wlan([0x88, 0x82], &[5, 0, 1, 2, 3, 4], ip)
    }),
    wrapping("802.11 with four addresses", 105, &[], |ip| {
        wlan([0x88, 0x03], &[2, 2, 2, 2, 2, 2, 5, 0], ip)
    }),
    wrapping("radiotap", 127, &[], |ip| [&[0, 0, 8, 0, 0, 0, 0, 0][..], &plain_wlan(ip)].concat()),
    wrapping("radiotap with time, flags and padding", 127, &[], |ip| {
        // Present: time, flags, rate, and a second word. Flags: checksum at the end, padded header.
        let header =
            [0, 0, 26, 0, 7, 0, 0, 0x80, 1, 0, 0, 0, 0, 0, 0, 0, 9, 9, 9, 9, 9, 9, 9, 9, 0x30, 2];
        [&header[..], &wlan([0x88, 0x02], &[5, 0, 0xEE, 0xEE], ip)].concat()
    }),
    wrapping("Prism", 119, &[], |ip| {
        let header = [&[0x44, 0, 0, 0, 144, 0, 0, 0][..], &[1; 136]].concat();
        [header, plain_wlan(ip)].concat()
    }),
    wrapping("AVS", 163, &[], |ip| {
        let header = [&[0x80, 0x21, 0x10, 1, 0, 0, 0, 64][..], &[1; 56]].concat();
        [header, plain_wlan(ip)].concat()
    }),
    wrapping("PPI with 802.11", 192, &[], |ip| {
        [&[0, 0, 12, 0, 105, 0, 0, 0, 9, 9, 0, 0][..], &plain_wlan(ip)].concat()
    }),
    wrapping("PKTAP with Ethernet", 258, &[], |ip| pktap(1, &ethernet_ip(ip))),
    wrapping("PKTAP with raw IP, for private use", 149, &[], |ip| pktap(12, ip)),
    wrapping("NFLOG", 239, &[], |ip| nflog(u16::to_le_bytes, ip)),
    wrapping("NFLOG in the other byte order", 239, &[], |ip| nflog(u16::to_be_bytes, ip)),
    wrapping("MPLS", 1, &["MPLS"], |ip| ethernet(0x8847, &[&[0, 1, 0x21, 64][..], ip].concat())),
    wrapping("MPLS with three labels", 1, &["MPLS"], |ip| {
        ethernet(0x8848, &[&[0, 1, 0x20, 64, 0, 2, 0x20, 64, 0, 3, 0x21, 64][..], ip].concat())
    }),
    wrapping("MPLS without Ethernet", 219, &["MPLS"], |ip| [&[0, 1, 0x21, 64][..], ip].concat()),
    wrapping("pseudo-wire", 1, &["MPLS"], |ip| {
        ethernet(0x8847, &[&[0, 1, 0x21, 64][..], &ethernet_ip(ip)].concat())
    }),
    wrapping("pseudo-wire with a control word", 1, &["MPLS"], |ip| {
        ethernet(0x8847, &[&[0, 1, 0x21, 64, 0, 0, 0, 9][..], &ethernet_ip(ip)].concat())
    }),
    wrapping("pseudo-wire from an address that looks like IPv4", 1, &["MPLS"], |ip| {
        let mut inner = ethernet_ip(ip);
        inner[0] = 0x46;
        ethernet(0x8847, &[&[0, 1, 0x21, 64][..], &inner].concat())
    }),
    wrapping("VXLAN", 1, &["VXLAN"], |ip| vxlan(4789, [8, 0, 0, 0], &ethernet_ip(ip))),
    wrapping("VXLAN of Linux", 1, &["VXLAN"], |ip| vxlan(8472, [8, 0, 0, 0], &ethernet_ip(ip))),
    wrapping("VXLAN with a group policy", 1, &["VXLAN"], |ip| {
        vxlan(4789, [0x88, 0, 1, 2], &ethernet_ip(ip))
    }),
    wrapping("VXLAN with a VLAN inside", 1, &["VXLAN"], |ip| {
        vxlan(4789, [8, 0, 0, 0], &ethernet(0x8100, &typed(7, &typed(ethertype(ip), ip))))
    }),
    wrapping("VXLAN-GPE with IP", 1, &["VXLAN-GPE"], |ip| {
        vxlan(4790, [0x0C, 0, 0, if is_v6(ip) { 2 } else { 1 }], ip)
    }),
    wrapping("VXLAN-GPE with Ethernet", 1, &["VXLAN-GPE"], |ip| {
        vxlan(4790, [0x0C, 0, 0, 3], &ethernet_ip(ip))
    }),
    wrapping("VXLAN-GPE with MPLS", 1, &["MPLS", "VXLAN-GPE"], |ip| {
        vxlan(4790, [0x0C, 0, 0, 5], &[&[0, 1, 0x21, 64][..], ip].concat())
    }),
    wrapping("Geneve", 1, &["Geneve"], |ip| {
        outer_udp(6081, &[&[0, 0, 0x65, 0x58, 0, 0, 7, 0][..], &ethernet_ip(ip)].concat())
    }),
    wrapping("Geneve with options and IP", 1, &["Geneve"], |ip| {
        let header =
            [&[2, 0x40][..], &typed(ethertype(ip), &[0, 0, 7, 0, 1, 2, 0x80, 1, 9, 9, 9, 9])];
        outer_udp(6081, &[&header.concat(), ip].concat())
    }),
    wrapping("GTP-U", 1, &["GTP-U"], |ip| gtp_u(0, &[], ip)),
    wrapping("GTP-U with a sequence number", 1, &["GTP-U"], |ip| gtp_u(2, &[0, 9, 0, 0], ip)),
    wrapping("GTP-U with an extension", 1, &["GTP-U"], |ip| {
        gtp_u(4, &[0, 0, 0, 0x85, 1, 0x10, 9, 0], ip)
    }),
    wrapping("GTP-U with two extensions", 1, &["GTP-U"], |ip| {
        gtp_u(7, &[0, 9, 0, 0x85, 2, 1, 2, 3, 4, 5, 6, 0xC0, 1, 0, 9, 0], ip)
    }),
    wrapping("GRE", 1, &["GRE"], |ip| gre(0, ethertype(ip), &[], ip)),
    wrapping("GRE with checksum, key and sequence number", 1, &["GRE"], |ip| {
        gre(0xB000, ethertype(ip), &[1; 12], ip)
    }),
    wrapping("GRE with Ethernet", 1, &["GRE"], |ip| gre(0x2000, 0x6558, &[1; 4], &ethernet_ip(ip))),
    wrapping("GRE with MPLS", 1, &["MPLS", "GRE"], |ip| {
        gre(0, 0x8847, &[], &[&[0, 1, 0x21, 64][..], ip].concat())
    }),
    wrapping("PPTP", 1, &["GRE"], |ip| {
        let length = (4 + ip.len()) as u16;
        let fields = [&typed(length, &[0, 7])[..], &[1; 8]].concat();
        gre(0x3081, 0x880B, &fields, &typed(0xFF03, &typed(ppp_protocol(ip), ip)))
    }),
    wrapping("ERSPAN type I", 1, &["GRE", "ERSPAN type I"], |ip| {
        gre(0, 0x88BE, &[], &ethernet_ip(ip))
    }),
    wrapping("ERSPAN type II", 1, &["GRE", "ERSPAN"], |ip| {
        gre(0x1000, 0x88BE, &[1; 4], &[&[0x10, 7, 0, 1, 0, 0, 0, 0][..], &ethernet_ip(ip)].concat())
    }),
    wrapping("ERSPAN type III", 1, &["GRE", "ERSPAN"], |ip| {
        let header = [0x20, 7, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
        gre(0x1000, 0x22EB, &[1; 4], &[&header[..], &ethernet_ip(ip)].concat())
    }),
    wrapping("ERSPAN type III with a subheader and IP", 1, &["GRE", "ERSPAN"], |ip| {
        let header = [0x20, 7, 0, 1, 0, 0, 0, 0, 0, 0, 8, 1, 4, 0, 0, 0, 0, 0, 0, 0];
        gre(0x1000, 0x22EB, &[1; 4], &[&header[..], ip].concat())
    }),
    wrapping("IP in IP", 1, &["IP in IP"], |ip| ethernet(0x0800, &outer_ip(4, ip))),
    wrapping("6in4", 1, &["IPv6 in IP (6in4)"], |ip| ethernet(0x0800, &outer_ip(41, ip))),
    wrapping("IP in IPv6", 1, &["IP in IP"], |ip| ethernet(0x86DD, &outer_ipv6(4, ip))),
    wrapping("EtherIP", 1, &["EtherIP"], |ip| {
        ethernet(0x0800, &outer_ip(97, &[&[0x30, 0][..], &ethernet_ip(ip)].concat()))
    }),
    wrapping("MPLS in IP", 1, &["MPLS"], |ip| {
        ethernet(0x0800, &outer_ip(137, &[&[0, 1, 0x21, 64][..], ip].concat()))
    }),
    wrapping("GRE in UDP", 1, &["GRE"], |ip| {
        outer_udp(4754, &[&[0, 0][..], &typed(ethertype(ip), ip)].concat())
    }),
    wrapping("MPLS in UDP", 1, &["MPLS"], |ip| {
        outer_udp(6635, &[&[0, 1, 0x21, 64][..], ip].concat())
    }),
    wrapping("GTP-U in GRE in PPPoE", 1, &["PPPoE", "GRE", "GTP-U"], |ip| {
        let inner = &gtp_u(2, &[0, 9, 0, 0], ip)[14..];
        ethernet(0x8864, &pppoe(&outer_ip(47, &[&[0, 0, 8, 0][..], inner].concat())))
    }),
];
