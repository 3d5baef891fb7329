package autopilot_test

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	library "github.com/hashicorp/raft-autopilot"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/autopilot"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// world is a region in memory: the Raft configuration, the gossip members and the answers of the
// servers. Server a is the leader.
type world struct {
	library.Raft // other methods are not called
	mu           sync.Mutex
	servers      []raft.Server
	members      map[string]*message.ServerMember
	silent       map[string]bool
	behind       map[string]uint64
	led          string // target of the leadership transfer
	settings     nomad.AutopilotConfig
}

// newWorld creates servers with one-letter names; upper case means non-voter.
func newWorld(names string) *world {
	w := &world{members: map[string]*message.ServerMember{}, silent: map[string]bool{}, behind: map[string]uint64{},
		settings: nomad.DefaultAutopilotConfig()}
	for i, name := range strings.Split(names, "") {
		suffrage := raft.Voter
		if name != strings.ToLower(name) {
			suffrage = raft.Nonvoter
		}
		w.servers = append(w.servers, raft.Server{Suffrage: suffrage, ID: raft.ServerID(name), Address: raft.ServerAddress(name)})
		w.members[name] = &message.ServerMember{Name: name, Addr: net.IPv4(127, 0, 0, byte(i+1)), Status: "alive",
			Tags: map[string]string{"id": name, "port": "4647", "build": "2.0.6"}}
	}
	return w
}

// set changes the gossip record of a member.
func (w *world) set(name string, change func(m *message.ServerMember)) {
	w.edit(func() {
		m := *w.members[name]
		m.Tags = maps.Clone(m.Tags)
		change(&m)
		w.members[name] = &m
	})
}

// edit changes the world while a pilot runs.
func (w *world) edit(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

func (w *world) fail(name string) { w.set(name, func(m *message.ServerMember) { m.Status = "failed" }) }

func (w *world) neverVotes(name string) {
	w.set(name, func(m *message.ServerMember) { m.Tags["nonvoter"] = "1" })
}

// Servers implements autopilot.Cluster.
func (w *world) Servers() []*message.ServerMember {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []*message.ServerMember
	for _, m := range w.members {
		out = append(out, m)
	}
	return out
}

// RaftStats implements autopilot.Cluster.
func (w *world) RaftStats(_ context.Context, m *message.ServerMember) (*message.RaftStats, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.silent[m.Name] || m.Status == "failed" {
		return nil, errors.New("no answer")
	}
	return &message.RaftStats{LastContact: "20ms", LastTerm: 3, LastIndex: 1000 - w.behind[m.Name]}, nil
}

// ForceLeave implements autopilot.Cluster: like the server, it removes the member from the Raft
// configuration.
func (w *world) ForceLeave(name string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.members, name)
	w.servers = slices.DeleteFunc(w.servers, func(s raft.Server) bool { return string(s.ID) == name })
	return nil
}

// done is a successful change of the Raft configuration.
type done struct{ servers []raft.Server }

func (done) Error() error                        { return nil }
func (done) Index() uint64                       { return 1 }
func (d done) Configuration() raft.Configuration { return raft.Configuration{Servers: d.servers} }

func (w *world) GetConfiguration() raft.ConfigurationFuture {
	w.mu.Lock()
	defer w.mu.Unlock()
	return done{slices.Clone(w.servers)}
}

func (w *world) suffrage(id raft.ServerID, s raft.ServerSuffrage) raft.IndexFuture {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.servers {
		if w.servers[i].ID == id {
			w.servers[i].Suffrage = s
		}
	}
	return done{}
}

func (w *world) AddVoter(id raft.ServerID, _ raft.ServerAddress, _ uint64, _ time.Duration) raft.IndexFuture {
	return w.suffrage(id, raft.Voter)
}

func (w *world) DemoteVoter(id raft.ServerID, _ uint64, _ time.Duration) raft.IndexFuture {
	return w.suffrage(id, raft.Nonvoter)
}

func (w *world) RemoveServer(id raft.ServerID, _ uint64, _ time.Duration) raft.IndexFuture {
	w.ForceLeave(string(id))
	return done{}
}

func (w *world) LeadershipTransferToServer(id raft.ServerID, _ raft.ServerAddress) raft.Future {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.led = string(id)
	return done{}
}

func (w *world) LastIndex() uint64          { return 1000 }
func (w *world) Leader() raft.ServerAddress { return "a" }
func (w *world) State() raft.RaftState      { return raft.Leader }
func (w *world) Stats() map[string]string   { return map[string]string{"last_log_term": "3"} }

// log returns the servers in the Raft configuration: non-voters in upper case.
func (w *world) log() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := ""
	for _, s := range w.servers {
		name := strings.ToLower(string(s.ID))
		if s.Suffrage != raft.Voter {
			name = strings.ToUpper(name)
		}
		out += name
	}
	return out
}

// fly runs a pilot and stops it at the end of the test.
func (w *world) fly(t *testing.T) *autopilot.Pilot {
	t.Helper()
	p := autopilot.New(autopilot.Config{ID: "a", Raft: w, Cluster: w, Settings: func() nomad.AutopilotConfig {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.settings
	}})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Run() = %v", err)
		}
		if p.Health() != nil {
			t.Error("Health() is not nil after Run ended")
		}
	})
	synctest.Wait()
	return p
}

// pass lets time pass within a synctest bubble.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestPromotion_Stable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld("abC")
		w.fly(t)
		pass(7 * time.Second)
		w.edit(func() { w.silent["C"] = true })
		pass(4 * time.Second)
		w.edit(func() { w.silent["C"] = false })
		pass(9 * time.Second)
		if got := w.log(); got != "abC" {
			t.Fatalf("9 s after it answers again the log is %s", got)
		}
		pass(6 * time.Second)
		if got := w.log(); got != "abc" {
			t.Errorf("15 s after it answers again the log is %s", got)
		}
	})
}

func TestDeadServers(t *testing.T) {
	forgotten := func(names string) func(*world) {
		return func(w *world) {
			for _, name := range strings.Split(names, "") {
				delete(w.members, name)
			}
		}
	}
	for name, c := range map[string]struct {
		world, dead, want string
		change            func(*world)
	}{
		"one of five":                         {world: "abcde", dead: "e", want: "abcd"},
		"two of five":                         {world: "abcde", dead: "de", want: "abc"},
		"three of five: no quorum":            {world: "abcde", dead: "cde", want: "abcde"},
		"one of three":                        {world: "abc", dead: "c", want: "ab"},
		"two of three: no quorum":             {world: "abc", dead: "bc", want: "abc"},
		"one of two: no quorum":               {world: "ab", dead: "b", want: "ab"},
		"one of three, but another is silent": {world: "abc", dead: "c", want: "abc", change: func(w *world) { w.silent["b"] = true }},
		"one of five, with min_quorum":        {world: "abcde", dead: "e", want: "abcde", change: func(w *world) { w.settings.MinQuorum = 5 }},
		"two of five, down to min_quorum":     {world: "abcde", dead: "de", want: "abce", change: func(w *world) { w.settings.MinQuorum = 4 }},
		"cleanup is off": {world: "abcde", dead: "e", want: "abcde",
			change: func(w *world) { w.settings.CleanupDeadServers = false }},
		"one without a vote":             {world: "abC", dead: "C", want: "ab"},
		"unknown to gossip, one of five": {world: "abcde", want: "abcd", change: forgotten("e")},
		"unknown to gossip, most":        {world: "abcde", want: "abcde", change: forgotten("cde")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(c.world)
				if c.change != nil {
					c.change(w)
				}
				for _, name := range c.dead {
					w.fail(string(name))
				}
				w.fly(t)
				pass(time.Minute)
				if got := w.log(); got != c.want {
					t.Errorf("the log is %s, want %s", got, c.want)
				}
			})
		})
	}
}

func TestPromotion_Nonvoters(t *testing.T) {
	for name, c := range map[string]struct{ world, nonVoters, want, leads string }{
		"stays":                 {"abcD", "D", "abcD", ""},
		"loses its vote":        {"abc", "c", "abC", ""},
		"two lose their votes":  {"abcde", "de", "abcDE", ""},
		"one of two":            {"ab", "b", "aB", ""},
		"the leader hands over": {"abc", "a", "abc", "b or c"},
		"no other candidate":    {"aB", "aB", "aB", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(c.world)
				for _, name := range c.nonVoters {
					w.neverVotes(string(name))
				}
				p := w.fly(t)
				pass(time.Minute)
				if got := w.log(); got != c.want {
					t.Errorf("the log is %s, want %s", got, c.want)
				}
				if (w.led == "") != (c.leads == "") || !strings.Contains(c.leads, w.led) {
					t.Errorf("leadership was transferred to %q, want %q", w.led, c.leads)
				}
				h := p.Health()
				if !h.Healthy || len(h.ReadReplicas) != len(c.nonVoters) {
					t.Errorf("Health() = %+v", h)
				}
				voters := strings.Trim(c.want, "ABCDE")
				if want := (len(voters) - 1) / 2; h.FailureTolerance != want || len(h.Voters) != len(voters) {
					t.Errorf("FailureTolerance = %d, want %d", h.FailureTolerance, want)
				}
			})
		})
	}
}

func TestHealth(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*world)
		sick   string
	}{
		"all healthy":            {func(*world) {}, ""},
		"one is silent":          {func(w *world) { w.edit(func() { w.silent["b"] = true }) }, "b"},
		"one is far behind":      {func(w *world) { w.edit(func() { w.behind["b"] = 251 }) }, "b"},
		"one is behind a little": {func(w *world) { w.edit(func() { w.behind["b"] = 250 }) }, ""},
		"one failed":             {func(w *world) { w.fail("c") }, "c"},
		"contact is bounded":     {func(w *world) { w.edit(func() { w.settings.LastContactThreshold = 10 * time.Millisecond }) }, "abc"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld("abc")
				w.settings.CleanupDeadServers = false
				p := w.fly(t)
				begun := time.Now()
				pass(5 * time.Second)
				if h := p.Health(); !h.Healthy || h.FailureTolerance != 1 || h.Leader != "a" || len(h.Servers) != 3 || h.Servers[1].Name != "b" {
					t.Fatalf("initially, Health() = %+v", h)
				}
				c.change(w)
				pass(5 * time.Second)
				h := p.Health()
				for _, s := range h.Servers {
					well := !strings.Contains(c.sick, s.ID)
					if s.Healthy != well || well == s.StableSince.After(begun.Add(time.Second)) {
						t.Errorf("%s: healthy %v since %v after the beginning, want %v", s.ID, s.Healthy, s.StableSince.Sub(begun), well)
					}
				}
				if h.Healthy != (c.sick == "") {
					t.Errorf("Healthy = %v", h.Healthy)
				}
			})
		})
	}
}
