// The report socket to the session. It never crosses the emulated network.
import { openChannel } from "./channel.js";

let socket;

// Milliseconds since 1970 on this machine's clock. The session converts them to nanoseconds since the run began.
export function wallClock(now = performance.now()) {
  return performance.timeOrigin + now;
}

export function report(type, fields) {
  if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify({ type, at_ms: wallClock(), ...fields }));
}

export function openReportSocket(handlers) {
  socket = openChannel(location.protocol === "http:" ? `ws://${location.host}/report` : "report");
  socket.onmessage = (event) => {
    const message = JSON.parse(event.data);
    handlers[message.type](message);
  };
  socket.onclose = () => handlers.closed();
}

export function reportErrors() {
  window.addEventListener("error", (event) => {
    report("event", { event: "page_error", detail: `${event.message} (${event.filename}:${event.lineno})` });
  });
  window.addEventListener("unhandledrejection", (event) => {
    report("event", { event: "page_error", detail: String(event.reason) });
  });
}
