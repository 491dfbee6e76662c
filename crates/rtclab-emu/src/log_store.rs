//! The log of a run that may last for hours: its newest rows are in memory, the others in a file.

use crate::packet_log::{HopLog, PacketLog};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

/// Rows of a chunk: below 1 MB with their hops.
const CHUNK: usize = 8_192;
/// Chunks in memory before the complete ones are stored: below 8 MB, 3 s at 200 Mbit/s.
const MOST_IN_MEMORY: usize = 8;

/// Consecutive rows of the log.
#[derive(Debug)]
struct Chunk {
    /// The rows, unless they have been stored.
    rows: Option<PacketLog>,
    /// Number of packets that are still in the network.
    open: usize,
}

/// A packet log whose complete chunks are stored in a file, in a thread of its own, so that a slow disk delays no
/// packet. The file has no name, so it disappears with the process. Where it cannot be written, the rows stay in
/// memory.
#[derive(Debug)]
pub(crate) struct LogStore {
    chunks: Vec<Chunk>,
    in_memory: usize,
    /// The file is made in this folder.
    folder: PathBuf,
    writer: Option<Writer>,
}

#[derive(Debug)]
struct Writer {
    sender: Sender<(usize, PacketLog)>,
    thread: JoinHandle<Stored>,
}

/// What a writer has stored, by the number of the chunk.
#[derive(Debug)]
struct Stored {
    file: Option<File>,
    chunks: Vec<(usize, Place)>,
}

#[derive(Debug)]
enum Place {
    /// From an offset in the file on.
    File(u64, Size),
    /// The file could not be written.
    Memory(Box<PacketLog>),
}

impl LogStore {
    /// An empty log. `folder` is for its file, if it needs one.
    pub(crate) fn new(folder: PathBuf) -> Self {
        LogStore { chunks: Vec::new(), in_memory: 0, folder, writer: None }
    }

    /// Adds a row, whose packet enters the network, and returns its number.
    pub(crate) fn push(&mut self, push: impl FnOnce(&mut PacketLog) -> usize) -> usize {
        if self.chunks.last().is_none_or(|chunk| chunk.is_full()) {
            self.chunks.push(Chunk { rows: Some(PacketLog::default()), open: 0 });
            self.in_memory += 1;
            if self.in_memory > MOST_IN_MEMORY {
                self.store();
            }
        }
        let number = self.chunks.len() - 1;
        let chunk = &mut self.chunks[number];
        chunk.open += 1;
        CHUNK * number + chunk.rows.as_mut().map_or(0, push)
    }

    /// Completes a row, whose packet has left the network. The chunk is passed with the place of the row in it.
    pub(crate) fn complete(&mut self, row: usize, complete: impl FnOnce(&mut PacketLog, usize)) {
        let chunk = &mut self.chunks[row / CHUNK];
        if let Some(rows) = &mut chunk.rows {
            complete(rows, row % CHUNK);
            chunk.open -= 1;
        }
    }

    /// Passes the complete chunks to the writer.
    fn store(&mut self) {
        let folder = &self.folder;
        let writer = self.writer.get_or_insert_with(|| Writer::start(folder.clone()));
        let complete = self
            .chunks
            .iter_mut()
            .enumerate()
            .filter(|(_, chunk)| chunk.is_full() && chunk.open == 0);
        for (number, chunk) in complete {
            let Some(rows) = chunk.rows.take() else { continue };
            self.in_memory -= 1;
            // The writer ends only after this sender.
            let _ = writer.sender.send((number, rows));
        }
    }

    /// The whole log.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn finish(self) -> io::Result<PacketLog> {
        let stored = match self.writer {
            None => Stored { file: None, chunks: Vec::new() },
            Some(Writer { sender, thread }) => {
                drop(sender);
                thread
                    .join()
                    .map_err(|_| io::Error::other("the thread of the packet log panicked"))?
            }
        };
        joined(self.chunks, stored)
    }
}

impl Chunk {
    fn is_full(&self) -> bool {
        self.rows.as_ref().is_none_or(|rows| rows.sent_ns.len() == CHUNK)
    }
}

/// All chunks in their order, those in memory and those that were stored.
fn joined(chunks: Vec<Chunk>, stored: Stored) -> io::Result<PacketLog> {
    let mut file = stored.file.map(BufReader::new);
    let mut places: HashMap<usize, Place> = stored.chunks.into_iter().collect();
    let (mut all, mut buffer) = (PacketLog::default(), Vec::new());
    for (number, chunk) in chunks.into_iter().enumerate() {
        let place =
            chunk.rows.map(|rows| Place::Memory(Box::new(rows))).or_else(|| places.remove(&number));
        match (place, &mut file) {
            (Some(Place::Memory(mut rows)), _) => {
                buffer.clear();
                write_columns(&mut rows, &mut buffer);
                read_columns(&mut all, &mut buffer.as_slice(), Size::of(&rows))?;
            }
            (Some(Place::File(offset, size)), Some(file)) => {
                file.seek(SeekFrom::Start(offset))?;
                read_columns(&mut all, file, size)?;
            }
            _ => return Err(io::Error::other("a part of the packet log is missing")),
        }
    }
    Ok(all)
}

/// Numbers of rows and hops.
#[derive(Clone, Copy, Debug)]
struct Size {
    rows: usize,
    hops: usize,
}

impl Size {
    fn of(log: &PacketLog) -> Self {
        Size { rows: log.sent_ns.len(), hops: log.hops.packet.len() }
    }
}

impl Writer {
    fn start(folder: PathBuf) -> Self {
        let (sender, receiver) = channel();
        let thread = thread::Builder::new().name("rtclab-log".into());
        let thread = thread.spawn(move || write(&folder, &receiver)).expect("a thread");
        Writer { sender, thread }
    }
}

fn write(folder: &Path, chunks: &Receiver<(usize, PacketLog)>) -> Stored {
    let mut file = nameless_file(folder).ok();
    let mut stored = Vec::new();
    let (mut buffer, mut end) = (Vec::new(), 0);
    for (number, mut rows) in chunks {
        buffer.clear();
        write_columns(&mut rows, &mut buffer);
        let written = file.as_mut().is_some_and(|file| {
            // After an error, the end of the file is where it was.
            file.seek(SeekFrom::Start(end)).and_then(|_| file.write_all(&buffer)).is_ok()
        });
        let place = match written {
            true => Place::File(end, Size::of(&rows)),
            false => Place::Memory(Box::new(rows)),
        };
        end += if written { buffer.len() as u64 } else { 0 };
        stored.push((number, place));
    }
    Stored { file, chunks: stored }
}

/// A new file that nobody else finds.
fn nameless_file(folder: &Path) -> io::Result<File> {
    let path =
        folder.join(format!(".rtclab-packets-{}-{:?}", process::id(), thread::current().id()));
    let file = File::options().read(true).write(true).create_new(true).open(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}

/// A column of a log, in bytes.
trait Column {
    fn write(&self, buffer: &mut Vec<u8>);
    fn read(&mut self, from: &mut dyn Read, rows: usize) -> io::Result<()>;
}

macro_rules! columns_of {
    ($($number:ty),*) => { $(
        impl Column for Vec<$number> {
            fn write(&self, buffer: &mut Vec<u8>) {
                self.iter().for_each(|value| buffer.extend_from_slice(&value.to_le_bytes()));
            }

            fn read(&mut self, from: &mut dyn Read, rows: usize) -> io::Result<()> {
                self.reserve_exact(rows);
                for _ in 0..rows {
                    let mut bytes = [0; size_of::<$number>()];
                    from.read_exact(&mut bytes)?;
                    self.push(<$number>::from_le_bytes(bytes));
                }
                Ok(())
            }
        }
    )* };
}

columns_of!(i64, i32, i16, i8, u32, u8);

/// The columns with a value for each packet, and those with a value for each hop.
fn columns(log: &mut PacketLog) -> ([&mut dyn Column; 19], [&mut dyn Column; 3]) {
    let PacketLog { sent_ns, delivered_ns, queued_ns, dropped_ns, written_ns, .. } = log;
    let PacketLog { drop_cause, drop_path, ecn, mark_path, mark_cause, from, to, .. } = log;
    let PacketLog { size_bytes, protocol, ssrc, payload_type, seq, rtp_timestamp, .. } = log;
    let PacketLog { marker, hops: HopLog { packet, path, queued_ns: waited_ns }, .. } = log;
    (
        [
            sent_ns,
            delivered_ns,
            queued_ns,
            dropped_ns,
            written_ns,
            drop_cause,
            drop_path,
            ecn,
            mark_path,
            mark_cause,
            from,
            to,
            size_bytes,
            protocol,
            ssrc,
            payload_type,
            seq,
            rtp_timestamp,
            marker,
        ],
        [packet, path, waited_ns],
    )
}

/// The bytes of all columns, one column after the other.
fn write_columns(log: &mut PacketLog, buffer: &mut Vec<u8>) {
    let (packets, hops) = columns(log);
    packets.into_iter().chain(hops).for_each(|column| column.write(buffer));
}

/// Adds the rows and hops of a chunk.
fn read_columns(log: &mut PacketLog, from: &mut dyn Read, size: Size) -> io::Result<()> {
    let (rows_before, hops_before) = (log.sent_ns.len() as u32, log.hops.packet.len());
    let (packets, hops) = columns(log);
    packets.into_iter().try_for_each(|column| column.read(from, size.rows))?;
    hops.into_iter().try_for_each(|column| column.read(from, size.hops))?;
    log.hops.packet[hops_before..].iter_mut().for_each(|packet| *packet += rows_before);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify::LoggedProtocol;
    use rtclab_core::ecn::Ecn;
    use rtclab_core::network::{NodeId, PathId, Wait};
    use rtclab_core::path::DropCause;
    use rtclab_core::rtp::RtpHeader;
    use rtclab_core::units::{Bytes, Time};
    use std::collections::VecDeque;
    use std::env;
    use std::mem::take;

    fn entered(log: &mut PacketLog, packet: u64) -> usize {
        let rtp = RtpHeader { ssrc: packet as u32, seq: packet as u16, ..RtpHeader::default() };
        let nodes = (NodeId(packet as u32 % 3), NodeId(1));
        log.push(
            Time(packet),
            nodes,
            Bytes(packet % 1_500),
            Ecn::Ect1,
            (LoggedProtocol::Rtp, Some(rtp)),
        )
    }

    fn left(log: &mut PacketLog, row: usize, packet: u64) {
        if packet % 5 == 0 {
            return log.dropped(row, Time(2 * packet), PathId(4), DropCause::Loss);
        }
        log.delivered(row, Time(3 * packet), Time(packet), Some(Time(4 * packet)));
        let wait = |path| Wait { path: PathId(path), queued: Time(packet + u64::from(path)) };
        log.waited(row, (0..packet as u32 % 3).map(wait));
    }

    /// The hops of a packet in their order, by packet.
    fn sorted(mut hops: HopLog) -> Vec<(u32, u32, i64)> {
        let rows = take(&mut hops.packet).into_iter().zip(hops.path).zip(hops.queued_ns);
        let mut rows: Vec<_> =
            rows.map(|((packet, path), queued)| (packet, path, queued)).collect();
        rows.sort_by_key(|row| row.0);
        rows
    }

    /// Packets enter a store and a plain log one by one. 5,000 are in the network, which they leave in pairs that have
    /// changed places; the packet with number 10 never leaves. Returns the most chunks that were in memory.
    fn fill(store: &mut LogStore, plain: &mut PacketLog) -> usize {
        let (mut inside, mut most) = (VecDeque::new(), 0);
        for packet in 0..20 * CHUNK as u64 + 5 {
            let row = store.push(|log| entered(log, packet));
            assert_eq!(row, entered(plain, packet));
            inside.push_back((row, packet));
            most = most.max(store.chunks.iter().filter(|chunk| chunk.rows.is_some()).count());
            if inside.len() > 5_000 {
                let index = if packet % 2 == 0 { 1 } else { 0 };
                let (row, packet) = inside.remove(index).expect("5,000 packets");
                if packet != 10 {
                    store.complete(row, |log, place| left(log, place, packet));
                    left(plain, row, packet);
                }
            }
        }
        most
    }

    fn stored_is_the_same(folder: PathBuf, is_in_file: bool) {
        let (mut store, mut plain) = (LogStore::new(folder), PacketLog::default());
        let most = fill(&mut store, &mut plain);
        // One has packet 10, and one or two have packets that are in the network.
        assert!(most <= MOST_IN_MEMORY + 1, "{most} chunks in memory");
        let LogStore { chunks, writer, .. } = store;
        let Writer { sender, thread } = writer.expect("chunks were stored");
        drop(sender);
        let stored = thread.join().expect("no panic");
        assert!(stored.chunks.len() > 10);
        let in_file = |place: &Place| matches!(place, Place::File(..));
        assert!(stored.chunks.iter().all(|(_, place)| in_file(place) == is_in_file));
        let mut all = joined(chunks, stored).expect("a readable file");
        let (hops, plain_hops) = (take(&mut all.hops), take(&mut plain.hops));
        assert!(all == plain, "the rows differ");
        assert!(sorted(hops) == sorted(plain_hops), "the hops differ");
    }

    #[test]
    fn a_log_that_went_to_a_file_has_all_rows_in_order_and_few_were_in_memory() {
        stored_is_the_same(env::temp_dir(), true);
    }

    #[test]
    fn a_log_that_no_file_can_take_is_complete() {
        stored_is_the_same("/proc/no/such/folder".into(), false);
    }

    #[test]
    fn a_short_log_needs_no_file() {
        let mut store = LogStore::new("/proc/no/such/folder".into());
        let row = store.push(|log| entered(log, 8));
        store.complete(row, |log, place| left(log, place, 8));
        assert!(store.writer.is_none());
        let log = store.finish().expect("no file is read");
        assert_eq!((log.sent_ns, log.written_ns), (vec![8], vec![32]));
    }
}
