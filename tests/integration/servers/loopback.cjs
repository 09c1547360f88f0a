// Preloaded into a server that would listen to the whole network: it listens to this machine, on any free port,
// and says which. `node --require loopback.cjs server.js`
const net = require("node:net");

const { listen } = net.Server.prototype;

net.Server.prototype.listen = function (port, ...rest) {
  const done = rest.find((argument) => typeof argument === "function");
  const wanted = Number(process.env.LOOPBACK_PORT ?? 0);
  this.once("listening", () => process.stdout.write(`PORT ${this.address().port}\n`));
  return listen.call(this, { port: wanted, host: "127.0.0.1" }, done);
};
