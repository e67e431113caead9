#!/usr/bin/env node
// An arrow on rhea that trusts nothing it receives: the twin of proton_arrow.py
// on an AMQP engine that shares no code with Proton. It speaks the key=value
// contract (v3, and v2 where neither set-message-id nor rate is given) in both
// roles, connection modes and channel modes. The receiver exits 1 with one line
// where a message disagrees with the arguments.
//
// Beyond the contract: body-type=data|string|binary-value for senders;
// trust-store, presettled, max-frame-size as our arrow takes them. A TLS server
// with a trust-store offers SASL EXTERNAL and nothing else.
'use strict';

const fs = require('fs');
const path = require('path');
const rhea = require(path.join(__dirname, '..', 'node_modules', 'rhea'));

const APPLICATION_PROPERTIES = 0x74;
const LONG_TYPECODES = [0x55, 0x81]; // AMQP 1.0 part 1, 1.6.13: smalllong, long
const SETTLEMENT_SAMPLE = 256; // requirement 000: the first and every 256th are 'S'

const raw = Object.fromEntries(process.argv.slice(2).map(function (argument) {
    const at = argument.indexOf('=');
    return [argument.slice(0, at), argument.slice(at + 1)];
}));
const isServer = raw['connection-mode'] === 'server';
const isActive = raw['channel-mode'] === 'active';
const sends = raw.operation === 'send';
const duration = Number(raw.duration);
const count = Number(raw.count);
const bodySize = Number(raw['body-size']);
const creditWindow = Number(raw['credit-window']);
const durable = raw.durable === '1';
const presettled = raw.presettled === '1';
const isV3 = 'set-message-id' in raw || 'rate' in raw;
const setsIds = !isV3 || raw['set-message-id'] === '1';

const container = rhea.create_container({ id: raw.id });
const records = [];
const ids = new Set();
const outcomes = {};
let transferred = 0;
let granted = 0;
let connection;
let connections = 0;
let sessions = 0;
let links = 0;
let server;
let expired = false;
let ended = false;
let failure;

function fail(reason) {
    failure = failure || reason;
    finish();
}

function finish() {
    if (ended) return;
    ended = true;
    if (server) server.close();
    if (connection) connection.close();
    // The process ends when its sockets are closed; a peer that does not answer
    // our close must not keep us.
    setTimeout(() => process.exit(), 2000).unref();
}

process.on('exit', function () {
    fs.writeSync(1, records.map((record) => record + '\n').join(''));
    if (failure) fs.writeSync(2, 'rhea_arrow: ' + failure + '\n');
    process.exitCode = failure ? 1 : 0;
});

// -- Sender ----------------------------------------------------------------

function body() {
    if (raw['body-type'] === 'string') return 'x'.repeat(bodySize);
    const bytes = Buffer.alloc(bodySize, 'x');
    if (raw['body-type'] === 'binary-value') return bytes;
    return rhea.message.data_section(bytes);
}

function sendWhileCredit(sender) {
    // rhea would hold back what is beyond the credit, and forget it in a detach.
    const most = presettled ? Math.min(count, transferred + sender.credit) : count;
    while (sender.sendable() && !expired && !ended && (count === 0 || transferred < most)) {
        transferred += 1;
        const id = raw.id + '-' + transferred;
        const now = Date.now();
        const message = {
            durable: durable,
            application_properties: { SendTime: rhea.types.wrap_long(now) },
            body: body(),
        };
        if (setsIds) message.message_id = id;
        records.push(isV3 ? now + ',0' : id + ',' + now);
        const delivery = sender.send(message);
        delivery.number = transferred;
    }
    // No outcomes will come; a close would overtake the transfers, a detach does not.
    if (presettled && transferred === count) sender.close();
}

function onOutcome(name, context) {
    outcomes[name] = (outcomes[name] || 0) + 1;
    if (raw.settlement === '1') {
        const number = context.delivery.number;
        const prefix = number % SETTLEMENT_SAMPLE === 1 ? 'S' : 's';
        records.push(prefix + raw.id + '-' + number + ',' + Date.now());
    }
    finishWhenSettled();
}

function finishWhenSettled() {
    const settled = Object.values(outcomes).reduce((sum, n) => sum + n, 0);
    if (settled < transferred || (transferred < count && !expired) || (count === 0 && !expired)) return;
    if (settled !== (outcomes.accepted || 0)) fail('outcomes: ' + JSON.stringify(outcomes));
    finish();
}

// -- Receiver --------------------------------------------------------------

function grant(receiver) {
    // Keep the window full, and never invite more than the count.
    let wanted = transferred + creditWindow - granted;
    if (count) wanted = Math.min(wanted, count - granted);
    if (wanted <= 0) return;
    granted += wanted;
    receiver.add_credit(wanted);
}

// rhea's decoder gives plain numbers; the AMQP type shows only on the wire.
// Its decode is wrapped to remember the typecode of SendTime of each message.
const decodeAsRheaDoes = rhea.message.decode;
rhea.message.decode = function (buffer) {
    const message = decodeAsRheaDoes(buffer);
    message.sendTimeTypecode = sendTimeTypecode(buffer);
    return message;
};

function sendTimeTypecode(buffer) {
    const reader = new rhea.types.Reader(buffer);
    while (reader.remaining()) {
        const section = reader.read();
        if (Number(section.descriptor.value) !== APPLICATION_PROPERTIES) continue;
        for (let i = 0; i + 1 < section.value.length; i += 2) {
            if (section.value[i].value === 'SendTime') return section.value[i + 1].type.typecode;
        }
    }
    return undefined;
}

function bodyBytes(content) {
    if (typeof content === 'string') return Buffer.from(content);
    if (Buffer.isBuffer(content)) return content;
    if (content && content.typecode === 0x75) {
        return content.multiple ? Buffer.concat(content.content) : content.content;
    }
    return undefined;
}

// Returns what is wrong with a message, or undefined.
function objection(context) {
    const message = context.message;
    const settled = context.delivery.remote_settled === true; // null where left out
    if (settled !== presettled) return 'settled by the sender: ' + settled;
    if ((message.durable || false) !== durable) return 'durable is ' + message.durable;
    if (!setsIds && message.message_id !== undefined) return 'has message id ' + message.message_id;
    if (setsIds && (typeof message.message_id !== 'string' || /^$|\0/.test(message.message_id))) {
        return 'the message id is ' + JSON.stringify(message.message_id) + ', not a clean string';
    }
    if (setsIds && ids.has(message.message_id)) return 'the message id is not unique';
    const bytes = bodyBytes(message.body);
    if (bytes === undefined || !bytes.equals(Buffer.alloc(bodySize, 'x'))) {
        return 'the body is not ' + bodySize + ' x';
    }
    if (!LONG_TYPECODES.includes(message.sendTimeTypecode)) {
        return 'SendTime has the typecode ' + message.sendTimeTypecode + ', not that of a long';
    }
    const sent = message.application_properties.SendTime;
    if (Math.abs(Date.now() - sent) > 60000) return 'SendTime is ' + sent + ', not now in ms';
    return undefined;
}

function onMessage(context) {
    if (count && transferred === count) {
        fail('the peer sent more than the count');
        return;
    }
    const wrong = objection(context);
    if (wrong) {
        context.delivery.reject();
        fail('message ' + (transferred + 1) + ': ' + wrong);
        return;
    }
    transferred += 1;
    const message = context.message;
    const times = message.application_properties.SendTime + ',' + Date.now();
    records.push(isV3 ? times : message.message_id + ',' + times);
    ids.add(message.message_id);
    context.delivery.accept();
    if (transferred === count) finish();
    else grant(context.receiver);
}

// -- Connection and link ---------------------------------------------------

function openLink() {
    // Settled, or mixed, which is the default (2.8.2).
    const mode = { snd_settle_mode: presettled ? 1 : 2 };
    if (sends) connection.open_sender({ ...mode, target: raw.path });
    else connection.open_receiver({ ...mode, source: raw.path, credit_window: 0, autoaccept: false });
}

function onLinkOpened(link) {
    if (isActive) return;
    links += 1;
    if (connections !== 1 || sessions !== 1 || links !== 1) {
        fail('the peer opened more than one connection, session or link');
    }
    const attach = link.remote.attach;
    link.set_source(attach.source);
    link.set_target(attach.target);
    const terminus = sends ? attach.source : attach.target;
    if (terminus.address !== raw.path) {
        fail('the peer attached to ' + terminus.address + ', not to ' + raw.path);
    }
}

function peerGone(what, condition) {
    const isDone = sends && presettled && transferred === count;
    if (condition) fail(what + ' closed by the peer: ' + condition);
    else if (!ended && !isDone && duration === 0) fail(what + ' closed by the peer too early');
    finish();
}

container.on('connection_open', function (context) {
    connection = context.connection;
    connections += 1;
    if (duration) {
        setTimeout(function () {
            expired = true;
            if (sends) finishWhenSettled();
            else finish();
        }, duration * 1000).unref();
    }
    if (isActive) openLink();
});
container.on('session_open', function () { sessions += 1; });
container.on('sender_open', (context) => onLinkOpened(context.sender));
container.on('receiver_open', function (context) {
    onLinkOpened(context.receiver);
    grant(context.receiver);
});
container.on('sendable', (context) => sendWhileCredit(context.sender));
for (const name of ['accepted', 'rejected', 'released', 'modified']) {
    container.on(name, (context) => onOutcome(name, context));
}
container.on('message', onMessage);
container.on('sender_close', (context) => peerGone('link', context.sender.error));
container.on('receiver_close', (context) => peerGone('link', context.receiver.error));
container.on('sender_error', (context) => peerGone('link', context.sender.error));
container.on('receiver_error', (context) => peerGone('link', context.receiver.error));
container.on('connection_error', (context) => peerGone('connection', context.connection.error));
// rhea tells of a close before the outcomes that came just ahead of it.
container.on('connection_close', function (context) {
    setImmediate(() => peerGone('connection', context.connection.error));
});
container.on('protocol_error', (error) => fail('protocol: ' + error));
container.on('error', (error) => fail('error: ' + error));
container.on('disconnected', function (context) {
    if (connection === undefined && isServer) return; // A probe of the port, not the peer.
    if (!ended && duration === 0) fail('disconnected: ' + (context.error || 'cut by the peer'));
});

const options = {
    host: raw.host,
    port: Number(raw.port),
    reconnect: false,
    all_errors_non_fatal: true,
    treat_modified_as_released: false,
    // For a passive receiver, whose link rhea opens on its own.
    receiver_options: { credit_window: 0, autoaccept: false },
};
if (raw['max-frame-size']) options.max_frame_size = Number(raw['max-frame-size']);
if (raw.scheme === 'amqps') {
    options.transport = 'tls';
    options.enable_sasl_external = true;
    if (raw.cert) {
        options.cert = fs.readFileSync(raw.cert);
        options.key = fs.readFileSync(raw.key);
    }
    if (raw['trust-store']) {
        options.ca = fs.readFileSync(raw['trust-store']);
        options.requestCert = isServer;
        options.rejectUnauthorized = true;
    }
}

if (isServer) {
    if (raw.username) {
        container.options.require_sasl = true;
        container.sasl_server_mechanisms.enable_plain(
            (user, password) => user === raw.username && password === raw.password);
    }
    if (raw['trust-store']) {
        container.options.require_sasl = true;
        container.options.enable_sasl_external = true;
    }
    container.options.receiver_options = options.receiver_options;
    server = container.listen(options);
    server.on('error', (error) => { fail('listen: ' + error); });
    server.on('tlsClientError', (error) => { if (!connection) fail('TLS: ' + error); });
} else {
    if (raw.username) {
        options.username = raw.username;
        options.password = raw.password;
    }
    container.connect(options);
}
