#!/usr/bin/env node
// What rhea can ask a server for, beyond what an arrow does: a line of JSON for each case.
//
//     rhea_suite.js PORT
//     {"case": "...", "gives": "yes" | "no", "says": "..."}
'use strict';

const assert = require('assert');
const path = require('path');
const rhea = require(path.join(__dirname, '..', 'node_modules', 'rhea'));

const port = Number(process.argv[2]);
// How long a case may take; nothing waits so long when it works.
const CASE_MS = 30000;

// Resolves with the context of an emitter's next event of one of these names.
function next(emitter, ...names) {
    return new Promise((resolve) => {
        for (const name of names) emitter.once(name, resolve);
    });
}

function connect(id) {
    const container = rhea.create_container({ id: id });
    // What a case does not expect shows as what it waits for and does not get.
    for (const name of ['connection_error', 'session_error', 'sender_error', 'receiver_error',
        'disconnected']) {
        container.on(name, () => {});
    }
    return container.connect({ host: '127.0.0.1', port: port, reconnect: false });
}

// Sends messages to an address and waits until the server has accepted them.
async function send(connection, address, ...messages) {
    const sender = connection.open_sender({ target: address });
    await next(sender, 'sendable');
    const done = new Promise((resolve) => {
        let accepted = 0;
        sender.on('accepted', () => { if (++accepted === messages.length) resolve(); });
    });
    for (const message of messages) sender.send(message);
    await done;
    sender.close();
}

// Opens a receiver without credit; what comes is in its `contexts`, each with its delivery.
async function receiver(connection, options) {
    const found = connection.open_receiver(
        Object.assign({ credit_window: 0, autoaccept: false, autosettle: false }, options));
    found.contexts = [];
    found.on('message', (context) => found.contexts.push(context));
    await next(found, 'receiver_open');
    return found;
}

async function take(link, count) {
    link.add_credit(count);
    while (link.contexts.length < count) await next(link, 'message');
    return link.contexts.splice(0, count);
}

// Takes all that there is for a link, and accepts it.
async function drained(link) {
    const ended = next(link, 'receiver_drained');
    link.add_credit(20);
    link.drain_credit();
    await ended;
    return link.contexts.splice(0).map((context) => {
        context.delivery.accept();
        return context.message.body;
    });
}

// Opens a receiver that is to be refused: an attach without a source, then a detach.
async function refusal(connection, source) {
    const link = connection.open_receiver({ source: source });
    await next(link, 'receiver_error');
    return link.error.condition;
}

function colored(...colors) {
    return colors.map((color) => (
        { body: color, application_properties: { color: color } }));
}

const cases = {
    async settle_second(connection, address) {
        await send(connection, address, { body: 'a' }, { body: 'b' });
        const link = await receiver(connection, { source: address, rcv_settle_mode: 1 });
        assert.strictEqual(link.remote.attach.rcv_settle_mode, 1);
        const [one] = await take(link, 1);
        // An outcome that is not settled yet: the server settles first, and before it drains.
        one.delivery.accept();
        assert.strictEqual(one.delivery.settled, false);
        assert.deepStrictEqual(await drained(link), ['b']);
        assert.strictEqual(one.delivery.remote_settled, true);
    },

    async selector(connection, address) {
        await send(connection, address, ...colored('red', 'blue', 'red', 'blue'));
        const filter = rhea.filter.selector("color = 'blue'");
        const blue = await receiver(connection, { source: { address: address, filter: filter } });
        assert.deepStrictEqual(await drained(blue), ['blue', 'blue']);
        const all = await receiver(connection, { source: address });
        assert.deepStrictEqual(await drained(all), ['red', 'red']);
    },

    async selector_of_browser(connection, address) {
        await send(connection, address, ...colored('red', 'blue'));
        const source = {
            address: address, distribution_mode: 'copy',
            filter: rhea.filter.selector("color = 'blue'"),
        };
        for (let turn = 0; turn < 2; turn += 1) {
            assert.deepStrictEqual(await drained(await receiver(connection, { source })), ['blue']);
        }
    },

    async bad_selector(connection, address) {
        const filter = rhea.filter.selector("color = = 'blue'");
        assert.strictEqual(
            await refusal(connection, { address: address, filter: filter }), 'amqp:invalid-field');
    },

    async unknown_filter(connection, address) {
        const filter = { odd: rhea.types.wrap_described('x', 'example:filter:string') };
        assert.strictEqual(
            await refusal(connection, { address: address, filter: filter }),
            'amqp:not-implemented');
    },

    async reserved_address(connection) {
        assert.strictEqual(await refusal(connection, '$management'), 'amqp:not-found');
    },

    async modified_annotations(connection, address) {
        await send(connection, address, { body: 'a' });
        const link = await receiver(connection, { source: address });
        const [first] = await take(link, 1);
        first.delivery.modified({
            delivery_failed: true, undeliverable_here: false,
            message_annotations: { 'x-opt-why': 'busy' },
        });
        const [again] = await take(link, 1);
        assert.strictEqual(again.message.message_annotations['x-opt-why'], 'busy');
        assert.strictEqual(again.message.delivery_count, 1);
        again.delivery.accept();
    },

    async released(connection, address) {
        await send(connection, address, { body: 'a' }, { body: 'b' });
        const link = await receiver(connection, { source: address });
        const [first] = await take(link, 1);
        first.delivery.release();
        assert.deepStrictEqual(await drained(link), ['a', 'b']);
    },

    async dynamic_topic(connection) {
        const source = { dynamic: true, capabilities: ['temporary-topic'] };
        const made = await receiver(connection, { source: source });
        const address = made.source.address;
        const other = await receiver(connection, { source: address });
        await send(connection, address, { body: 'a' });
        assert.deepStrictEqual(await drained(made), ['a']);
        assert.deepStrictEqual(await drained(other), ['a']);
    },

    async durable_subscription(connection, address) {
        const source = {
            address: 'topic-' + address, capabilities: ['topic'], durable: 2,
            expiry_policy: 'never',
        };
        for (const texts of [[], ['a'], ['b', 'c']]) {
            if (texts.length) {
                const messages = texts.map((text) => ({ body: text, durable: true }));
                await send(connection, source.address, ...messages);
            }
            const own = connect(address + '-durable');
            const link = await receiver(own, { name: 'sub', source: source });
            assert.strictEqual(link.source.expiry_policy, 'never');
            assert.deepStrictEqual(await drained(link), texts);
            link.detach();
            await next(link, 'receiver_close', 'receiver_detached');
            own.close();
            await next(own, 'connection_close');
        }
    },

    async shared_subscription(connection, address) {
        const source = { address: 'topic-' + address, capabilities: ['topic', 'shared'] };
        const links = [];
        for (const name of ['sub|1', 'sub|2']) {
            links.push(await receiver(connection, { name: name, source: source }));
        }
        await send(connection, source.address, { body: 'a' }, { body: 'b' });
        const got = [await take(links[0], 1), await drained(links[1])];
        assert.deepStrictEqual([got[0][0].message.body, got[1]], ['a', ['b']]);
    },

    async stolen_link(connection, address) {
        const source = {
            address: 'topic-' + address, capabilities: ['topic'], expiry_policy: 'never',
        };
        const id = address + '-twice';
        const first = await receiver(connect(id), { name: 'sub', source: source });
        const stolen = next(first, 'receiver_error');
        await receiver(connect(id), { name: 'sub', source: source });
        await stolen;
        assert.strictEqual(first.error.condition, 'amqp:link:stolen');
    },
};

function within(promise, name) {
    let timer;
    const late = new Promise((_, reject) => {
        timer = setTimeout(() => reject(new Error(name + ' does not end')), CASE_MS);
    });
    return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

async function main() {
    for (const [name, run] of Object.entries(cases)) {
        const connection = connect('rhea-' + name);
        let gives = 'yes';
        let says = '';
        try {
            await within(run(connection, 'rhea-' + name), name);
        } catch (error) {
            gives = 'no';
            says = error.message;
        }
        connection.close();
        console.log(JSON.stringify({ case: name, gives: gives, says: says }));
    }
    // Connections that a case left open end with the process.
    process.exit(0);
}

main();
