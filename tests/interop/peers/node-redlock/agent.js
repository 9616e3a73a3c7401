// SPDX-License-Identifier: MIT
//
// The agent of node-redlock (agents.py says what is said to it). An actor is a chain of promises. Its locks
// always have a lease.
'use strict';
const crypto = require('crypto');
const fs = require('fs');
const path = require('path');
const readline = require('readline');
const Redis = require('ioredis');
const Redlock = require('redlock');

const DEFAULT_LEASE_MS = 30000;
const RETRY_MS = 50;
const clients = new Map();
const actors = new Map();

const answer = (sequence, text) => process.stdout.write(`${sequence} ${text}\n`);
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// One server, or several that decide by majority: redlock://HOST,HOST,HOST
function open(url) {
    if (!url.startsWith('redlock://')) return [new Redis(url)];
    return url.slice('redlock://'.length).split(',').map((host) => new Redis(`redis://${host}`));
}

async function acquire(actor, name, waitMs, leaseMs) {
    const retryCount = waitMs < 0 ? -1 : Math.ceil(waitMs / RETRY_MS);
    const redlock = new Redlock(actor.clients, { retryCount, retryDelay: RETRY_MS, retryJitter: 10 });
    redlock.on('clientError', (error) => process.stderr.write(`${error}\n`));
    try {
        const lock = await redlock.lock(name, leaseMs || DEFAULT_LEASE_MS);
        actor.held.set(name, [...(actor.held.get(name) || []), lock]);
        return true;
    } catch (error) {
        if (error instanceof Redlock.LockError) return false;
        throw error;
    }
}

async function release(actor, name) {
    try {
        await actor.held.get(name).pop().unlock();
        return 'ok';
    } catch (error) {
        if (error instanceof Redlock.LockError) return 'lost';
        throw error;
    }
}

async function inside(folder, holdMs) {
    const mine = `x.${crypto.randomUUID()}.1`;
    fs.closeSync(fs.openSync(path.join(folder, mine), 'wx'));
    const others = fs.readdirSync(folder).filter((name) => name !== mine && name[1] === '.');
    await sleep(holdMs);
    fs.unlinkSync(path.join(folder, mine));
    return others.length ? 1 : 0;
}

async function loop(actor, name, [waitMs, leaseMs, rounds, holdMs], folder) {
    let grants = 0, busy = 0, clashes = 0;
    for (let i = 0; i < rounds; i++) {
        if (!(await acquire(actor, name, waitMs, leaseMs))) {
            busy++;
            continue;
        }
        grants++;
        clashes += await inside(folder, holdMs);
        await release(actor, name);
    }
    return `ok ${grants} ${busy} ${clashes}`;
}

async function act(actor, verb, name, kind, numbers) {
    switch (verb) {
    case 'acquire':
        return (await acquire(actor, name, Number(numbers[0]), Number(numbers[1]))) ? 'ok 0' : 'busy';
    case 'release':
        return release(actor, name);
    case 'loop':
        return loop(actor, name, numbers.slice(0, 4).map(Number), numbers[4]);
    default:
        return `failed verb ${verb}`;
    }
}

function serve(sequence, who, verb, name, kind, ...numbers) {
    if (!who.includes('/')) {
        if (verb === 'open') clients.set(who, open(name));
        else clients.get(who).forEach((client) => client.disconnect());
        answer(sequence, 'ok');
        return;
    }
    if (!actors.has(who)) {
        const opened = clients.get(who.split('/')[0]);
        actors.set(who, { clients: opened, held: new Map(), last: Promise.resolve() });
    }
    const actor = actors.get(who);
    actor.last = actor.last.then(() => act(actor, verb, name, kind, numbers))
        .then((text) => answer(sequence, text), (error) => answer(sequence, `failed ${error}`));
}

readline.createInterface({ input: process.stdin })
    .on('line', (line) => serve(...line.trim().split(/ +/)))
    .on('close', () => process.exit(0));
