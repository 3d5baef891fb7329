package gossip

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/serf/serf"
)

// twinWithin bounds the question whether a member of the same name or ID lives.
const twinWithin = time.Second

// merge decides who gets in. Serf asks it about all that the other side of a
// meeting knows, and about each member that it hears of.
//
// A member with this one's name, or its ID under another name, is its twin: a
// second server with a copied data_dir or configuration, or only what is left of
// this one from before it moved. The meeting fails, and the twin is asked outside of
// serf; when nothing answers at its address, the next meeting goes well.
//
//	unknown ──meeting fails──▶ asked ──answers──▶ alive: refused, and said
//	                             └──does not──▶ stale: no longer looked at
type merge struct{ p *Pool }

// NotifyMerge implements serf.MergeDelegate.
func (m merge) NotifyMerge(members []*serf.Member) error {
	for _, other := range members {
		if other.Status == serf.StatusLeft {
			continue
		}
		if err := m.p.admit(other, members); err != nil {
			return err
		}
	}
	return nil
}

// admit refuses a member by an error.
func (p *Pool) admit(other *serf.Member, among []*serf.Member) error {
	if p.isSelf(other) {
		return nil
	}
	if other.Tags["role"] != Role {
		return fmt.Errorf("member '%s' is not a server: its role tag is not %q", other.Name, Role)
	}
	if p.isTwin(other) {
		return p.suspect(other, among)
	}
	if other.Name == p.cfg.Name {
		return nil // what is left of this one
	}
	if ours, theirs := p.cfg.Tags["vsn"], other.Tags["vsn"]; ours != theirs {
		return fmt.Errorf("member '%s' speaks version %q of the servers' protocol (tag vsn), this server %q", other.Name, theirs, ours)
	}
	if known := p.sameID(other); known != "" {
		return fmt.Errorf("member '%s' has the ID %s of %s, which is alive: was data_dir copied? Give it a data_dir of its own", other.Name, other.Tags["id"], known)
	}
	if p.cfg.Admit == nil {
		return nil
	}
	return p.cfg.Admit(member(*other))
}

// isSelf says whether others told of this member itself.
func (p *Pool) isSelf(m *serf.Member) bool {
	s := p.running.Load()
	if s == nil {
		return m.Name == p.cfg.Name // serf begins with itself
	}
	self := s.LocalMember()
	return m.Name == self.Name && m.Tags["id"] == self.Tags["id"] && m.Addr.Equal(self.Addr) && m.Port == self.Port
}

// isTwin says whether a member has the name or the ID of this one at another
// address, and may be alive.
func (p *Pool) isTwin(m *serf.Member) bool {
	if m.Name != p.cfg.Name && (m.Tags["id"] == "" || m.Tags["id"] != p.cfg.Tags["id"]) {
		return false
	}
	if s := p.running.Load(); s != nil {
		if self := s.LocalMember(); m.Addr.Equal(self.Addr) && m.Port == self.Port {
			return false // this one had another name or data_dir
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.stale[twinOf(m)]
}

// sameID returns the name of a living member, not this one, with the ID of another.
func (p *Pool) sameID(m *serf.Member) string {
	s := p.running.Load()
	if s == nil || m.Tags["id"] == "" {
		return ""
	}
	for _, known := range s.Members() {
		if known.Status == serf.StatusAlive && known.Name != m.Name && known.Name != p.cfg.Name && known.Tags["id"] == m.Tags["id"] && (!known.Addr.Equal(m.Addr) || known.Port != m.Port) {
			return known.Name
		}
	}
	return ""
}

// twin is where a member of this one's name or ID was.
type twin struct{ name, id, addr string }

func twinOf(m *serf.Member) twin {
	return twin{m.Name, m.Tags["id"], net.JoinHostPort(m.Addr.String(), strconv.Itoa(int(m.Port)))}
}

// errTwin is why a meeting failed: a twin is asked for.
var errTwin = errors.New("another server has the name or the ID of this one")

// suspect begins to ask for a twin, and refuses until there is an answer. It must
// not block: serf holds its locks.
func (p *Pool) suspect(m *serf.Member, among []*serf.Member) error {
	t := twinOf(m)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asked[t] == nil && !p.closed {
		verdict := make(chan struct{})
		p.asked[t] = verdict
		p.wg.Go(func() { p.ask(t, addresses(among, m), verdict) })
	}
	return fmt.Errorf("%w: '%s' with ID %s at %s", errTwin, t.name, t.id, t.addr)
}

// addresses are those of the members but one.
func addresses(members []*serf.Member, but *serf.Member) []string {
	var out []string
	for _, m := range members {
		if m != but && m.Status != serf.StatusLeft {
			out = append(out, twinOf(m).addr)
		}
	}
	return out
}

// ask finds out whether a twin lives. When it does not, the others are met again.
func (p *Pool) ask(t twin, others []string, verdict chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), twinWithin)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", t.addr)
	p.mu.Lock()
	delete(p.asked, t)
	if err != nil {
		p.stale[t] = true
	}
	closed := p.closed
	p.mu.Unlock()
	close(verdict)
	if err == nil {
		p.cfg.Log.Error("another server has the name or the ID of this one and is alive: give one of them another name and data_dir, and start it again",
			"server", t.name, "id", t.id, "addr", t.addr)
		conn.Close() // nothing was sent
		return
	}
	if s := p.running.Load(); s != nil && !closed && len(others) > 0 {
		if _, err := s.Join(others, true); err != nil {
			p.cfg.Log.Debug("meet the others again", "err", err)
		}
	}
}

// meet is serf's join; one that failed because of a twin is done again when the twin
// is found to be no more.
func (p *Pool) meet(addrs []string) (int, error) {
	n, err := p.serf.Join(addrs, true)
	if err == nil || !strings.Contains(err.Error(), errTwin.Error()) { // serf keeps the text only
		return n, err
	}
	p.mu.Lock()
	open := slices.Collect(maps.Values(p.asked))
	p.mu.Unlock()
	for _, verdict := range open {
		<-verdict
	}
	return p.serf.Join(addrs, true)
}
