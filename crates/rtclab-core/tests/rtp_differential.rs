//! RTCP compared with an independent implementation, the crate `rtcp` of webrtc-rs: each understands what the
//! other writes.

use proptest::collection::vec;
use proptest::prelude::*;
use rtclab_core::rtp::RtcpPacket;
use rtclab_core::rtp::rtcp::*;
use rtclab_core::units::Bitrate;
use rtcp::packet::Packet;
use rtcp::payload_feedbacks::full_intra_request as their_fir;
use rtcp::payload_feedbacks::picture_loss_indication as their_pli;
use rtcp::payload_feedbacks::receiver_estimated_maximum_bitrate as their_remb;
use rtcp::reception_report::ReceptionReport;
use rtcp::source_description as their_sdes;
use rtcp::transport_feedbacks::transport_layer_cc as their_twcc;
use rtcp::transport_feedbacks::transport_layer_nack as their_nack;
use their_twcc::{PacketStatusChunk, SymbolTypeTcc};

/// Asserts that they parse our bytes of `ours` as `theirs`, and that we parse their bytes of `theirs` as
/// `ours`.
fn assert_same<T>(ours: &RtcpPacket, theirs: &T)
where
    T: Packet + Send + Sync + Clone + PartialEq + 'static,
{
    let mut bytes = Vec::new();
    ours.write(&mut bytes).unwrap();
    let parsed = rtcp::packet::unmarshal(&mut &bytes[..]).unwrap();
    assert_eq!(parsed.len(), 1);
    assert_eq!(parsed[0].as_any().downcast_ref::<T>(), Some(theirs));
    let bytes = rtcp::packet::marshal(&[Box::new(theirs.clone())]).unwrap();
    assert_eq!(parse_compound(&bytes).collect::<Vec<_>>(), [Ok(ours.clone())]);
}

prop_compose! {
    fn blocks()(blocks in vec(
        (any::<(u32, u8, u32, u32, u32, u32)>(), -0x80_0000..=0x7F_FFFF), 0..=31,
    )) -> (Vec<ReportBlock>, Vec<ReceptionReport>) {
        blocks.into_iter().map(|((ssrc, fraction_lost, seq, jitter, lsr, dlsr), lost)| {
            let ours = ReportBlock {
                ssrc, fraction_lost, cumulative_lost: lost, highest_seq: seq, jitter,
                last_sender_report: lsr, delay_since_last_sender_report: dlsr,
            };
            // They do not sign-extend the 24 bits.
            let total_lost = lost as u32 & 0xFF_FFFF;
            let theirs = ReceptionReport {
                ssrc, fraction_lost, total_lost, last_sequence_number: seq, jitter,
                last_sender_report: lsr, delay: dlsr,
            };
            (ours, theirs)
        }).unzip()
    }
}

proptest! {
    #[test]
    fn sender_reports_are_the_same(
        (ssrc, ntp, rtp_timestamp, packet_count, octet_count) in any::<(u32, u64, u32, u32, u32)>(),
        (blocks, reports) in blocks(),
    ) {
        let ntp_time = ntp;
        let ntp = NtpTime(ntp);
        let ours = SenderReport { ssrc, ntp, rtp_timestamp, packet_count, octet_count, blocks };
        let theirs = rtcp::sender_report::SenderReport {
            ssrc, ntp_time, rtp_time: rtp_timestamp, packet_count, octet_count, reports,
            ..Default::default()
        };
        assert_same(&RtcpPacket::SenderReport(ours), &theirs);
    }

    #[test]
    fn receiver_reports_are_the_same(ssrc: u32, (blocks, reports) in blocks()) {
        let theirs =
            rtcp::receiver_report::ReceiverReport { ssrc, reports, ..Default::default() };
        assert_same(&RtcpPacket::ReceiverReport(ReceiverReport { ssrc, blocks }), &theirs);
    }

    #[test]
    fn source_descriptions_are_the_same(names in vec((any::<u32>(), "[ -~]{0,255}"), 0..=31)) {
        let (chunks, their_chunks) = names.into_iter().map(|(ssrc, cname)| {
            let item = their_sdes::SourceDescriptionItem {
                sdes_type: their_sdes::SdesType::SdesCname, text: cname.clone().into(),
            };
            let theirs =
                their_sdes::SourceDescriptionChunk { source: ssrc, items: vec![item] };
            (SdesChunk { ssrc, cname }, theirs)
        }).unzip();
        let theirs = their_sdes::SourceDescription { chunks: their_chunks };
        assert_same(&RtcpPacket::SourceDescription(SourceDescription { chunks }), &theirs);
    }

    #[test]
    fn goodbyes_are_the_same(ssrcs in vec(any::<u32>(), 1..=31), reason in "[ -~]{1,255}") {
        let theirs = rtcp::goodbye::Goodbye { sources: ssrcs.clone(), reason: reason.clone().into() };
        assert_same(&RtcpPacket::Goodbye(Goodbye { ssrcs, reason: Some(reason) }), &theirs);
    }

    #[test]
    fn nacks_are_the_same(
        (sender_ssrc, media_ssrc, first) in any::<(u32, u32, u16)>(),
        steps in vec(1u16..40, 1..100),
    ) {
        let lost: Vec<u16> = steps.iter().scan(first, |seq, step| {
            *seq = seq.wrapping_add(*step);
            Some(*seq)
        }).collect();
        let ours = RtcpPacket::Nack(Nack { sender_ssrc, media_ssrc, lost: lost.clone() });
        let mut bytes = Vec::new();
        ours.write(&mut bytes).unwrap();
        let parsed = rtcp::packet::unmarshal(&mut &bytes[..]).unwrap();
        let theirs = parsed[0].as_any().downcast_ref::<their_nack::TransportLayerNack>().unwrap();
        prop_assert_eq!((theirs.sender_ssrc, theirs.media_ssrc), (sender_ssrc, media_ssrc));
        // Lists are compared, not bytes: they start another item where the sequence number wraps.
        let their_lost: Vec<u16> =
            theirs.nacks.iter().flat_map(|pair| pair.packet_list()).collect();
        prop_assert_eq!(&their_lost, &lost);
        let nacks = their_nack::nack_pairs_from_sequence_numbers(&lost);
        let theirs = their_nack::TransportLayerNack { sender_ssrc, media_ssrc, nacks };
        let bytes = rtcp::packet::marshal(&[Box::new(theirs)]).unwrap();
        prop_assert_eq!(parse_compound(&bytes).collect::<Vec<_>>(), [Ok(ours)]);
    }

    #[test]
    fn key_frame_requests_are_the_same(
        (sender_ssrc, media_ssrc) in any::<(u32, u32)>(),
        commands in vec(any::<(u32, u8)>(), 1..20),
    ) {
        let ours = PictureLossIndication { sender_ssrc, media_ssrc };
        let theirs = their_pli::PictureLossIndication { sender_ssrc, media_ssrc };
        assert_same(&RtcpPacket::PictureLossIndication(ours), &theirs);
        let entries = commands.iter();
        let fir = entries.map(|&(ssrc, sequence_number)| their_fir::FirEntry { ssrc, sequence_number });
        let theirs = their_fir::FullIntraRequest { sender_ssrc, media_ssrc: 0, fir: fir.collect() };
        let ours = FullIntraRequest { sender_ssrc, commands };
        assert_same(&RtcpPacket::FullIntraRequest(ours), &theirs);
    }

    #[test]
    fn rembs_are_the_same(
        sender_ssrc: u32,
        // Zero is left out: they read it as 2^23.
        mantissa in 1u64..1 << 18,
        exponent in 0..=46,
        ssrcs in vec(any::<u32>(), 0..=255),
    ) {
        let bps = mantissa << exponent;
        let theirs = their_remb::ReceiverEstimatedMaximumBitrate {
            sender_ssrc, bitrate: bps as f32, ssrcs: ssrcs.clone(),
        };
        let ours = Remb { sender_ssrc, bitrate: Bitrate(bps), ssrcs };
        assert_same(&RtcpPacket::Remb(ours), &theirs);
    }
}

/// All symbols of their chunks, in order.
fn symbols(chunks: &[PacketStatusChunk]) -> Vec<SymbolTypeTcc> {
    let symbols = chunks.iter().flat_map(|chunk| match chunk {
        PacketStatusChunk::RunLengthChunk(run) => {
            vec![run.packet_status_symbol; usize::from(run.run_length)]
        }
        PacketStatusChunk::StatusVectorChunk(vector) => vector.symbol_list.clone(),
    });
    symbols.collect()
}

/// One status per packet from their chunks and deltas.
fn their_statuses(feedback: &their_twcc::TransportLayerCc) -> Vec<Option<i32>> {
    let mut deltas = feedback.recv_deltas.iter();
    let symbols = symbols(&feedback.packet_chunks).into_iter();
    let statuses = symbols.take(usize::from(feedback.packet_status_count)).map(|symbol| {
        (symbol != SymbolTypeTcc::PacketNotReceived).then(|| {
            let delta = deltas.next().expect("a delta for each packet that arrived");
            (delta.delta / 250) as i32
        })
    });
    statuses.collect()
}

/// Any chunk, including those that we would not choose.
fn any_chunk() -> impl Strategy<Value = PacketStatusChunk> {
    use SymbolTypeTcc::*;
    let symbol = prop_oneof![
        Just(PacketNotReceived),
        Just(PacketReceivedSmallDelta),
        Just(PacketReceivedLargeDelta)
    ];
    let bit = prop_oneof![Just(PacketNotReceived), Just(PacketReceivedSmallDelta)];
    let run = (symbol.clone(), 1u16..40).prop_map(|(packet_status_symbol, run_length)| {
        let type_tcc = their_twcc::StatusChunkTypeTcc::RunLengthChunk;
        PacketStatusChunk::RunLengthChunk(their_twcc::RunLengthChunk {
            type_tcc,
            packet_status_symbol,
            run_length,
        })
    });
    let vector = |symbol_size, symbol_list| {
        let type_tcc = their_twcc::StatusChunkTypeTcc::StatusVectorChunk;
        PacketStatusChunk::StatusVectorChunk(their_twcc::StatusVectorChunk {
            type_tcc,
            symbol_size,
            symbol_list,
        })
    };
    let one_bit = vec(bit, 14)
        .prop_map(move |symbols| vector(their_twcc::SymbolSizeTypeTcc::OneBit, symbols));
    let two_bit = vec(symbol, 7)
        .prop_map(move |symbols| vector(their_twcc::SymbolSizeTypeTcc::TwoBit, symbols));
    prop_oneof![run, one_bit, two_bit]
}

/// Their feedback with any chunks, and deltas taken from `ticks` for packets that have arrived.
fn their_feedback(chunks: Vec<PacketStatusChunk>, ticks: &[i16]) -> their_twcc::TransportLayerCc {
    let symbols = symbols(&chunks);
    let arrived = symbols.iter().filter(|symbol| **symbol != SymbolTypeTcc::PacketNotReceived);
    let deltas = arrived.zip(ticks.iter().cycle()).map(|(&type_tcc_packet, &ticks)| {
        let small = type_tcc_packet == SymbolTypeTcc::PacketReceivedSmallDelta;
        let ticks = if small { i64::from(ticks as u8) } else { i64::from(ticks) };
        their_twcc::RecvDelta { type_tcc_packet, delta: ticks * 250 }
    });
    their_twcc::TransportLayerCc {
        sender_ssrc: 1,
        media_ssrc: 2,
        base_sequence_number: 0xFFF0,
        packet_status_count: symbols.len() as u16,
        reference_time: 0x12_3456,
        fb_pkt_count: 200,
        recv_deltas: deltas.collect(),
        packet_chunks: chunks,
    }
}

proptest! {
    #[test]
    fn they_understand_our_transport_feedback(
        (sender_ssrc, media_ssrc, base_seq, feedback_count) in any::<(u32, u32, u16, u8)>(),
        reference_time_64ms in 0..=0x7F_FFFF,
        runs in vec((prop_oneof![
            Just(None), (0i32..=255).prop_map(Some), (-32_768..=32_767).prop_map(Some),
        ], prop_oneof![1usize..4, 1usize..40]), 0..30),
    ) {
        let mut statuses: Vec<Option<i32>> =
            runs.into_iter().flat_map(|(status, len)| vec![status; len]).collect();
        // They reject a packet that ends with its last chunk.
        statuses.push(Some(0));
        let ours = TransportFeedback {
            sender_ssrc, media_ssrc, base_seq, feedback_count, reference_time_64ms, statuses,
        };
        let mut bytes = Vec::new();
        RtcpPacket::TransportFeedback(ours.clone()).write(&mut bytes).unwrap();
        let parsed = rtcp::packet::unmarshal(&mut &bytes[..]).unwrap();
        let theirs = parsed[0].as_any().downcast_ref::<their_twcc::TransportLayerCc>().unwrap();
        prop_assert_eq!((theirs.sender_ssrc, theirs.media_ssrc), (sender_ssrc, media_ssrc));
        prop_assert_eq!(theirs.base_sequence_number, base_seq);
        prop_assert_eq!(theirs.fb_pkt_count, feedback_count);
        prop_assert_eq!(i64::from(theirs.reference_time), i64::from(reference_time_64ms));
        prop_assert_eq!(their_statuses(theirs), ours.statuses);
    }

    #[test]
    fn we_understand_their_transport_feedback(
        chunks in vec(any_chunk(), 1..10), ticks in vec(any::<i16>(), 1..50),
    ) {
        let theirs = their_feedback(chunks, &ticks);
        let bytes = rtcp::packet::marshal(&[Box::new(theirs.clone())]).unwrap();
        let ours = TransportFeedback {
            sender_ssrc: 1,
            media_ssrc: 2,
            base_seq: 0xFFF0,
            reference_time_64ms: 0x12_3456,
            feedback_count: 200,
            statuses: their_statuses(&theirs),
        };
        let parsed: Vec<_> = parse_compound(&bytes).collect();
        prop_assert_eq!(parsed, [Ok(RtcpPacket::TransportFeedback(ours))]);
    }
}
