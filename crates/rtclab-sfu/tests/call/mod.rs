//! The server as a process, and clients that talk to it over loopback sockets.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::UdpSocket;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};
use str0m::change::{SdpAnswer, SdpPendingOffer};
use str0m::format::Codec;
use str0m::media::{Direction, MediaKind, Mid, Rid, Simulcast, SimulcastLayer};
use str0m::net::{Protocol, Receive};
use str0m::rtp::{RtpPacket, RtpWrite};
use str0m::{Candidate, Event, Input, Output, Rtc};

/// How long a test waits for what must happen. A busy machine needs more than a quiet one.
const PATIENCE: Duration = Duration::from_secs(20);

/// The server with its clients.
pub(crate) struct Call {
    process: Child,
    stdin: Option<ChildStdin>,
    stdout: Receiver<Value>,
    /// What the server wrote, apart from answers.
    pub(crate) messages: Vec<Value>,
    pub(crate) clients: Vec<Client>,
}

impl Call {
    pub(crate) fn start() -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_rtclab-sfu"))
            .args(["--listen", "127.0.0.1"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let lines = BufReader::new(process.stdout.take().expect("a pipe")).lines();
        let (sender, stdout) = mpsc::channel();
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let message = serde_json::from_str(&line).expect("a line is JSON");
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let stdin = process.stdin.take();
        Self { process, stdin, stdout, messages: Vec::new(), clients: Vec::new() }
    }

    pub(crate) fn send(&mut self, message: &Value) {
        let stdin = self.stdin.as_mut().expect("standard input is open");
        writeln!(stdin, "{message}").expect("the server reads");
    }

    /// Adds a client and sends its offer. Its number is its place among the clients.
    pub(crate) fn add(
        &mut self,
        direction: Direction,
        rids: &[&str],
        forwards: Option<usize>,
    ) -> usize {
        let (client, offer) = Client::offer(direction, rids);
        self.clients.push(client);
        let id = self.clients.len() - 1;
        let description = json!({"type": "offer", "sdp": offer});
        self.send(&json!({"connection": id, "description": description, "forwards": forwards}));
        id
    }

    /// Lets time pass until `done`, which may write packets.
    pub(crate) fn run_until(&mut self, what: &str, mut done: impl FnMut(&mut Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !done(self) {
            assert!(Instant::now() < deadline, "waited in vain: {what}; {:?}", self.messages);
            while let Ok(message) = self.stdout.try_recv() {
                self.handle(message);
            }
            let active =
                self.clients.iter_mut().fold(false, |active, client| client.step() | active);
            if !active {
                thread::sleep(Duration::from_micros(500));
            }
        }
    }

    pub(crate) fn run_for(&mut self, duration: Duration) {
        let end = Instant::now() + duration;
        self.run_until("the end of a time", |_| Instant::now() >= end);
    }

    pub(crate) fn connect_all(&mut self) {
        self.run_until("all clients connect", |call| {
            call.clients.iter().all(|it| it.rtc.is_connected())
        });
    }

    /// Closes standard input and waits for the end of the server.
    pub(crate) fn end(mut self) -> bool {
        self.stdin = None;
        self.process.wait().expect("it was started").success()
    }

    fn handle(&mut self, message: Value) {
        match message.pointer("/description/sdp").and_then(Value::as_str) {
            Some(sdp) => {
                let id = message["connection"].as_u64().expect("an answer has a number");
                self.clients[id as usize].accept(sdp);
            }
            None => self.messages.push(message),
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// One end of a peer connection, as a browser would be.
pub(crate) struct Client {
    pub(crate) rtc: Rtc,
    socket: UdpSocket,
    timeout: Instant,
    pending: Option<SdpPendingOffer>,
    pub(crate) audio: Mid,
    pub(crate) video: Mid,
    /// Received packets with the time of their arrival.
    pub(crate) packets: Vec<RtpPacket>,
    /// Layers for which the server asked for a key frame.
    pub(crate) keyframe_requests: Vec<Option<Rid>>,
}

impl Client {
    fn offer(direction: Direction, rids: &[&str]) -> (Self, String) {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
        socket.set_nonblocking(true).expect("a socket can be non-blocking");
        let now = Instant::now();
        let mut rtc = Rtc::builder().set_rtp_mode(true).build(now);
        let address = socket.local_addr().expect("it is bound");
        rtc.add_local_candidate(Candidate::host(address, "udp").expect("a candidate"));
        let mut simulcast = Simulcast::new();
        rids.iter().for_each(|rid| simulcast.add_send_layer(SimulcastLayer::new(rid)));
        let simulcast = (!rids.is_empty()).then_some(simulcast);
        let mut change = rtc.sdp_api();
        let audio = change.add_media(MediaKind::Audio, direction, None, None, None);
        let video = change.add_media(MediaKind::Video, direction, None, None, simulcast);
        let (offer, pending) = change.apply().expect("there are changes");
        let client = Self {
            rtc,
            socket,
            timeout: now,
            pending: Some(pending),
            audio,
            video,
            packets: Vec::new(),
            keyframe_requests: Vec::new(),
        };
        (client, offer.to_sdp_string())
    }

    fn accept(&mut self, sdp: &str) {
        let answer = SdpAnswer::from_sdp_string(sdp).expect("an answer");
        let pending = self.pending.take().expect("an answer follows an offer");
        self.rtc.sdp_api().accept_answer(pending, answer).expect("an acceptable answer");
        self.drain();
    }

    /// Sends an RTP packet.
    pub(crate) fn write(
        &mut self,
        video: bool,
        rid: Option<&str>,
        seq: u64,
        time: u32,
        payload: &[u8],
    ) {
        let (mid, codec) = if video { (self.video, Codec::Vp8) } else { (self.audio, Codec::Opus) };
        let params =
            self.rtc.codec_config().find(|it| it.spec().codec == codec).expect("it is enabled");
        let pt = params.pt();
        let mut direct = self.rtc.direct_api();
        let stream = direct.stream_tx_by_mid(mid, rid.map(Rid::from)).expect("it was offered");
        let write =
            RtpWrite::new(pt, seq.into(), time, Instant::now(), payload).marker(seq % 2 == 0);
        stream.write_rtp(write.nackable(true));
        self.drain();
    }

    /// The received packets of the video, or of the audio.
    pub(crate) fn received(&mut self, video: bool) -> Vec<&RtpPacket> {
        let mid = if video { self.video } else { self.audio };
        let mut direct = self.rtc.direct_api();
        let mut belongs =
            |it: &RtpPacket| direct.stream_rx(&it.header.ssrc).is_some_and(|it| it.mid() == mid);
        self.packets.iter().filter(|packet| belongs(packet)).collect()
    }

    fn step(&mut self) -> bool {
        let mut buffer = [0; 2000];
        let now = Instant::now();
        if let Ok((size, source)) = self.socket.recv_from(&mut buffer) {
            let destination = self.socket.local_addr().expect("it is bound");
            let contents = buffer[..size].try_into().expect("the server speaks WebRTC");
            let receive = Receive { proto: Protocol::Udp, source, destination, contents };
            self.rtc
                .handle_input(Input::Receive(now, receive))
                .expect("the server speaks correctly");
            self.drain();
            return true;
        }
        if self.timeout <= now {
            self.rtc.handle_input(Input::Timeout(now)).expect("time may pass");
            self.drain();
        }
        false
    }

    fn drain(&mut self) {
        loop {
            match self.rtc.poll_output().expect("the client is alive") {
                Output::Timeout(at) => {
                    self.timeout = at;
                    return;
                }
                Output::Transmit(transmit) => {
                    let _ = self.socket.send_to(&transmit.contents, transmit.destination);
                }
                Output::Event(Event::RtpPacket(packet)) => self.packets.push(packet),
                Output::Event(Event::KeyframeRequest(request)) => {
                    self.keyframe_requests.push(request.rid)
                }
                Output::Event(_) => {}
            }
        }
    }
}
