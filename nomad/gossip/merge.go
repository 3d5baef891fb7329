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

// aliveWithin bounds the check whether a member with the same name or ID is alive.
const aliveWithin = time.Second

// merge decides which members are admitted. Serf calls it with all members of the other side of a
// join, and with each member that it learns about.
//
// A duplicate is a member with the name of this one, or with its ID under another name. It is a second
// server with a copied data_dir or configuration, or a stale record of this one from before it
// moved. The join fails, and the duplicate's address is checked outside of serf. If nothing answers, the
// next join succeeds.
//
//	unknown ──join fails──▶ asked ──answers──▶ alive: rejected, logged as an error
//	                          └──does not──▶ stale: ignored from now on
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

// admit returns an error to reject a member.
func (p *Pool) admit(other *serf.Member, among []*serf.Member) error {
	if p.isSelf(other) {
		return nil
	}
	if other.Tags["role"] != Role {
		return fmt.Errorf("member '%s' is not a server: its role tag is not %q", other.Name, Role)
	}
	if p.isDuplicate(other) {
		return p.checkDuplicate(other, among)
	}
	if other.Name == p.cfg.Name {
		return nil // a stale record of this one
	}
	if ours, theirs := p.cfg.Tags["vsn"], other.Tags["vsn"]; ours != theirs {
		return fmt.Errorf("member '%s' speaks version %q of the server protocol (tag vsn), this server speaks %q", other.Name, theirs, ours)
	}
	if known := p.sameID(other); known != "" {
		return fmt.Errorf("member '%s' has the ID %s of %s, which is alive: was data_dir copied? Give it a data_dir of its own", other.Name,
			other.Tags["id"], known)
	}
	if p.cfg.Admit == nil {
		return nil
	}
	return p.cfg.Admit(member(*other))
}

// isSelf reports whether the member is this one.
func (p *Pool) isSelf(m *serf.Member) bool {
	s := p.running.Load()
	if s == nil {
		return m.Name == p.cfg.Name // serf starts with itself
	}
	self := s.LocalMember()
	return m.Name == self.Name && m.Tags["id"] == self.Tags["id"] && m.Addr.Equal(self.Addr) && m.Port == self.Port
}

// isDuplicate reports whether a member at another address has the name or the ID of this one and may be
// alive.
func (p *Pool) isDuplicate(m *serf.Member) bool {
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
	return !p.stale[duplicateOf(m)]
}

// sameID returns the name of another living member with the same ID.
func (p *Pool) sameID(m *serf.Member) string {
	s := p.running.Load()
	if s == nil || m.Tags["id"] == "" {
		return ""
	}
	for _, known := range s.Members() {
		if known.Status == serf.StatusAlive && known.Name != m.Name && known.Name != p.cfg.Name && known.Tags["id"] == m.Tags["id"] &&
			(!known.Addr.Equal(m.Addr) || known.Port != m.Port) {
			return known.Name
		}
	}
	return ""
}

// duplicate identifies a member with this one's name or ID.
type duplicate struct{ name, id, addr string }

func duplicateOf(m *serf.Member) duplicate {
	return duplicate{m.Name, m.Tags["id"], net.JoinHostPort(m.Addr.String(), strconv.Itoa(int(m.Port)))}
}

// errDuplicate is the reason for a failed join while a duplicate is checked.
var errDuplicate = errors.New("another server has the name or the ID of this one")

// checkDuplicate starts a duplicate check and rejects the join until it has a result. It must not block: serf
// holds its locks.
func (p *Pool) checkDuplicate(m *serf.Member, among []*serf.Member) error {
	t := duplicateOf(m)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.checks[t] == nil && !p.closed {
		verdict := make(chan struct{})
		p.checks[t] = verdict
		p.wg.Go(func() { p.probe(t, addresses(among, m), verdict) })
	}
	return fmt.Errorf("%w: '%s' with ID %s at %s", errDuplicate, t.name, t.id, t.addr)
}

// addresses returns the addresses of all members except one.
func addresses(members []*serf.Member, but *serf.Member) []string {
	var out []string
	for _, m := range members {
		if m != but && m.Status != serf.StatusLeft {
			out = append(out, duplicateOf(m).addr)
		}
	}
	return out
}

// probe checks whether a duplicate is alive. If not, it joins the other members again.
func (p *Pool) probe(t duplicate, others []string, verdict chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), aliveWithin)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", t.addr)
	p.mu.Lock()
	delete(p.checks, t)
	if err != nil {
		p.stale[t] = true
	}
	closed := p.closed
	p.mu.Unlock()
	close(verdict)
	if err == nil {
		p.cfg.Log.Error("another server has the name or the ID of this one and is alive: give one of them another "+
			"name and data_dir, and start it again",
			"server", t.name, "id", t.id, "addr", t.addr)
		conn.Close() // nothing was sent
		return
	}
	if s := p.running.Load(); s != nil && !closed && len(others) > 0 {
		if _, err := s.Join(others, true); err != nil {
			p.cfg.Log.Debug("join the other members again", "err", err)
		}
	}
}

// joinMembers joins other members. A join that failed because of a duplicate is repeated if the duplicate is not
// alive.
func (p *Pool) joinMembers(addrs []string) (int, error) {
	n, err := p.serf.Join(addrs, true)
	if err == nil || !strings.Contains(err.Error(), errDuplicate.Error()) { // serf keeps only the text
		return n, err
	}
	p.mu.Lock()
	open := slices.Collect(maps.Values(p.checks))
	p.mu.Unlock()
	for _, verdict := range open {
		<-verdict
	}
	return p.serf.Join(addrs, true)
}
