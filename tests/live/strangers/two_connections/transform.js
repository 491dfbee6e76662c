// Adds a byte to each encoded frame that is sent, and takes it away from each that is received.
"use strict";

const frames = { sent: 0, received: 0 };

function pass(side, readable, writable) {
  const transform = (frame, controller) => {
    const data = new Uint8Array(frame.data);
    if (side === "sent") {
      const longer = new Uint8Array(data.length + 1);
      longer.set(data);
      frame.data = longer.buffer;
    } else {
      frame.data = data.slice(0, -1).buffer;
    }
    controller.enqueue(frame);
    if (++frames[side] % 10 === 0) postMessage({ side, frames: frames[side] });
  };
  readable.pipeThrough(new TransformStream({ transform })).pipeTo(writable).catch(() => {});
}

onrtctransform = ({ transformer }) => pass(transformer.options.side, transformer.readable, transformer.writable);
onmessage = ({ data }) => pass(data.side, data.readable, data.writable);
