// In place of the demo's own settings.js: Janus is a server of its own, reached by WebSocket.
var server = "ws://janus:8188";
var iceServers = null;
var token = "";
var apisecret = "";
