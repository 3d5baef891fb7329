package token_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
)

// history is a random sequence of what happens to a node, its tasks and Vault.
type history struct {
	*world
	*agent
	t     *testing.T
	r     *rand.Rand
	alloc *nomad.Allocation
	// watched are the tasks that run, with the ends of their subscriptions.
	watched map[string]func()
	down    bool // Vault does not answer
	slow    bool // a login may be in progress: without its answer, a stopped agent cannot revoke the token
	steps   []string
}

// events are what can happen, by name.
var events = []struct {
	name string
	do   func(h *history)
}{
	{"time", func(h *history) { pass(time.Duration(h.r.Int64N(int64(10 * time.Second)))) }},
	{"more time", func(h *history) { pass(time.Duration(h.r.Int64N(int64(2 * time.Hour)))) }},
	{"seal", func(h *history) { h.vault.Seal(); h.down = true }},
	{"refuse", func(h *history) { h.set("refuse"); h.down = true }},
	{"hang", func(h *history) { h.set("hang"); h.down = true }},
	{"fail", func(h *history) { h.set("500 * x"); h.down = true }},
	{"slow", func(h *history) { h.set("slow"); h.slow = true }},
	{"recovery", (*history).recover},
	{"recovery and time", func(h *history) { h.recover(); pass(6 * time.Minute); h.check() }},
	{"revocation by an operator", func(h *history) {
		for _, id := range h.vault.Tokens() {
			if h.r.IntN(2) == 0 {
				h.vault.Lost(id)
			}
		}
	}},
	{"status 403", func(h *history) { h.Rejected(h.t.Context(), "web", h.Secret("web")()) }},
	{"start of a task", func(h *history) { h.begin(h.task()) }},
	{"end of a task", func(h *history) {
		task := h.task()
		if stop := h.watched[task]; stop != nil {
			stop()
			delete(h.watched, task)
		}
		h.EndTask(task)
	}},
	{"restart of the agent", func(h *history) {
		if h.slow {
			return
		}
		h.stop()
		if h.r.IntN(2) == 0 {
			pass(time.Duration(h.r.Int64N(int64(time.Hour))))
		}
		h.agent = h.resume(h.t, h.alloc)
		for task := range h.watched {
			delete(h.watched, task)
			h.begin(task)
		}
	}},
}

func (h *history) task() string { return []string{"web", "db"}[h.r.IntN(2)] }

func (h *history) begin(task string) {
	if h.watched[task] != nil {
		return
	}
	_, h.watched[task] = h.agent.Watch(task)
}

func (h *history) recover() {
	h.set("")
	h.vault.Unseal()
	h.down = false
	if h.slow {
		pass(6 * time.Second)
	}
	h.slow = false
}

// check checks the tokens after Vault was up for a while: each running task has a valid one, and there are no others.
func (h *history) check() {
	h.t.Helper()
	for task := range h.watched {
		h.Rejected(h.t.Context(), task, h.Secret(task)()) // else a revocation is noticed at the next renewal
	}
	if pass(6 * time.Second); h.settled() {
		return
	}
	if pass(70 * time.Second); !h.settled() { // a replaced token stays for a minute
		h.t.Fatalf("%d tokens in Vault and %d running tasks, or a task has no valid token, after %q", len(h.vault.Tokens()), len(h.watched), h.steps)
	}
}

// settled reports whether the tokens in Vault are those of the running tasks.
func (h *history) settled() bool {
	var want []string
	for task := range h.watched {
		want = append(want, h.Secret(task)())
	}
	slices.Sort(want)
	return slices.Equal(h.vault.Tokens(), want)
}

// TestRandom checks random histories: a running task has a valid token when Vault is up for long enough, no other token
// remains, and after the end of the allocation there are no tokens, renewals and logins.
func TestRandom(t *testing.T) {
	roles := map[string]map[string]any{
		"short":   {"token_period": "5s"},
		"long":    {"token_period": "30m"},
		"maximum": {"token_period": nil, "token_ttl": "1h", "token_max_ttl": "3h"},
	}
	for seed := range uint64(4) {
		for name, role := range roles {
			t.Run(fmt.Sprintf("%s/%d", name, seed), func(t *testing.T) {
				t.Parallel()
				bubble(t, func(t *testing.T, w *world) {
					w.vault.Expect("unknown token")
					w.setup(t, role)
					h := &history{world: w, t: t, r: rand.New(rand.NewPCG(seed, 1)), alloc: alloc("web", "db"), watched: map[string]func(){}}
					h.agent = w.start(t, h.alloc)
					h.begin("web")
					pass(3 * time.Second)
					h.vault.Lost(h.Secret("web")()) // so that the expected fault occurs
					h.check()
					for range 60 {
						e := events[h.r.IntN(len(events))]
						h.steps = append(h.steps, e.name)
						e.do(h)
					}
					h.end(t)
					renewals := w.vault.Calls(renewCall)
					h.recover()
					pass(6 * time.Minute)
					logins := w.vault.Calls(loginCall) // a login in progress was continued, and its token revoked
					if n := len(w.vault.Tokens()); n != 0 || w.stored(t) != 0 {
						t.Errorf("%d tokens in Vault after the end, %d stored, after %q", n, w.stored(t), h.steps)
					}
					if pass(time.Hour); w.vault.Calls(renewCall) != renewals || w.vault.Calls(loginCall) != logins {
						t.Errorf("renewals or logins after the end, after %q", h.steps)
					}
				})
			})
		}
	}
}
