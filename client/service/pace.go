package service

import (
	"reflect"
	"time"

	"github.com/open-nomad/open-nomad/nomad/catalog"
)

// The rate at which changes of the health of one registration are sent: two at once, then one every five seconds. Each
// is an entry of the Raft log, and a job decides how often its checks change.
const (
	healthEvery = 5 * time.Second
	healthBurst = 2
)

// due returns the earliest time at which the entry may be sent. The zero time means at once.
func (e *entry) due() time.Time {
	if free := e.free(); e.healthOnly() && free.After(e.retry) {
		return free
	}
	return e.retry
}

// held reports whether the entry waits because its health changes too often.
func (e *entry) held() bool { return e.healthOnly() && time.Now().Before(e.free()) }

// healthOnly reports whether the entry differs from what the servers have in its health only.
func (e *entry) healthOnly() bool {
	return !e.leaving && e.acked != nil && sameButHealth(e.acked, e.reg)
}

// free returns when the next change of health may be sent.
func (e *entry) free() time.Time {
	if e.quiet.IsZero() {
		return e.quiet
	}
	return e.quiet.Add(-(healthBurst - 1) * healthEvery)
}

// acknowledge records what the servers have. A change of health uses up a part of the rate.
func (e *entry) acknowledge(reg *catalog.Registration) {
	if e.acked != nil && sameButHealth(e.acked, reg) {
		if now := time.Now(); e.quiet.Before(now) {
			e.quiet = now
		}
		e.quiet = e.quiet.Add(healthEvery)
	}
	e.acked = reg
}

// stillRefused reports whether the servers have refused the registration not long ago, perhaps with another health.
func (e *entry) stillRefused(reg *catalog.Registration) bool {
	return !e.refused.IsZero() && time.Since(e.refused) < deniedMax && sameButHealth(e.reg, reg)
}

// sameButHealth reports whether two registrations differ in their health at most.
func sameButHealth(a, b *catalog.Registration) bool {
	x, y := *a, *b
	x.Status, x.Checks = y.Status, y.Checks
	return reflect.DeepEqual(x, y)
}
