#!/usr/bin/env node
// What rhea can ask of a server beyond an arrow's sends and receives: to drain, to
// browse, and for a node of the server's making.
//
//     rhea_modes.js port=PORT path=QUEUE mode=drain|browse|dynamic
//
// Exits 0 where all came as AMQP 1.0 says, else 1 with one line.
'use strict';

const assert = require('assert');
const path = require('path');
const rhea = require(path.join(__dirname, '..', 'node_modules', 'rhea'));

const TEXTS = ['a', 'b', 'c', 'd', 'e'];

const raw = Object.fromEntries(process.argv.slice(2).map((word) => word.split('=')));
const container = rhea.create_container();

// Resolves with the context of an emitter's next event of that name.
function next(emitter, name) {
    return new Promise((resolve) => emitter.once(name, resolve));
}

// Sends all texts to an address and waits until the server has accepted them.
async function fill(connection, address) {
    const sender = connection.open_sender({ target: address });
    await next(sender, 'sendable');
    await new Promise((resolve) => {
        let accepted = 0;
        sender.on('accepted', () => { if (++accepted === TEXTS.length) resolve(); });
        for (const text of TEXTS) sender.send({ body: text });
    });
    sender.close();
}

// Opens a receiver that takes nothing before it is given credit.
async function receiver(connection, source) {
    const found = connection.open_receiver({ source: source, credit_window: 0 });
    found.texts = [];
    found.on('message', (context) => found.texts.push(context.message.body));
    await next(found, 'receiver_open');
    return found;
}

// Gives a receiver more credit than there are messages, takes back the rest; returns what came.
async function drained(link) {
    const ended = next(link, 'receiver_drained');
    link.texts = [];
    link.add_credit(2 * TEXTS.length);
    link.drain_credit();
    await ended;
    assert.strictEqual(link.credit, 0, 'credit is left after a drain: ' + link.credit);
    return link.texts;
}

const modes = {
    async drain(connection) {
        const link = await receiver(connection, raw.path);
        assert.deepStrictEqual(await drained(link), []);
        await fill(connection, raw.path);
        assert.deepStrictEqual(await drained(link), TEXTS);
        assert.deepStrictEqual(await drained(link), []);
    },

    async browse(connection) {
        await fill(connection, raw.path);
        for (let turn = 0; turn < 2; turn += 1) {
            const browser = await receiver(
                connection, { address: raw.path, distribution_mode: 'copy' });
            assert.strictEqual(browser.source.distribution_mode, 'copy');
            assert.deepStrictEqual(await drained(browser), TEXTS);
            browser.close();
            await next(browser, 'receiver_close');
        }
        // A consumer gets them all the same, once.
        const consumer = await receiver(connection, raw.path);
        assert.deepStrictEqual(await drained(consumer), TEXTS);
        assert.deepStrictEqual(await drained(consumer), []);
    },

    async dynamic(connection) {
        const links = [];
        for (let number = 0; number < 2; number += 1) {
            links.push(await receiver(connection, { dynamic: true }));
        }
        const [one, two] = links.map((link) => link.source.address);
        assert.ok(one && two && one !== two, 'the addresses are ' + one + ' and ' + two);
        await fill(connection, one);
        assert.deepStrictEqual(await drained(links[0]), TEXTS);
        assert.deepStrictEqual(await drained(links[1]), []);
    },
};

function fail(reason) {
    process.stderr.write('rhea_modes: ' + String(reason).split('\n').join(' ') + '\n');
    process.exit(1);
}

for (const name of ['connection_error', 'receiver_error', 'sender_error', 'disconnected']) {
    container.on(name, (context) => fail(name + ': ' + (context.error || '')));
}
container.on('connection_open', async function (context) {
    try {
        await modes[raw.mode](context.connection);
    } catch (error) {
        fail(error.message);
    }
    context.connection.close();
});
container.on('connection_close', () => process.exit(0));
container.connect({ host: '127.0.0.1', port: Number(raw.port), reconnect: false });
