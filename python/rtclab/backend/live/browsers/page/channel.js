// A channel to a server: a WebSocket for an address that begins with ws:, otherwise requests and server-sent events
// with the interface of one. Safari on iOS opens no WebSocket to a server whose certificate only its user has accepted
// (WebKit bug 145819).

const AT_ONCE = 20;

export function openChannel(address) {
  return address.startsWith("ws:") ? new WebSocket(address) : new Channel(address);
}

class Channel extends EventTarget {
  constructor(address) {
    super();
    this.address = address;
    this.readyState = WebSocket.CONNECTING;
    this.waiting = [];
    this.events = new EventSource(address);
    this.events.onmessage = ({ data }) => this.onmessage?.({ data });
    this.events.onopen = () => {
      this.readyState = WebSocket.OPEN;
      this.dispatchEvent(new Event("open"));
    };
    this.events.onerror = () => this.lost();
  }

  send(data) {
    this.waiting.push(data);
    this.flush();
  }

  // One request at a time keeps the order.
  async flush() {
    if (this.flushing) return;
    this.flushing = true;
    while (this.waiting.length && this.readyState !== WebSocket.CLOSED) {
      const body = `[${this.waiting.splice(0, AT_ONCE).join(",")}]`;
      const response = await fetch(this.address, { method: "POST", body }).catch(() => null);
      if (!response?.ok) this.lost();
    }
    this.flushing = false;
  }

  lost() {
    if (this.readyState === WebSocket.CLOSED) return;
    this.close();
    this.onerror?.();
    this.onclose?.();
  }

  close() {
    this.readyState = WebSocket.CLOSED;
    this.events.close();
  }
}
