//go:build linux

package faults

import (
	"context"
	"errors"
	"fmt"
)

// Agree waits until all answering servers name the same leader, and returns it.
func (c *Cluster) Agree(ctx context.Context) (*Server, error) {
	return c.leaderAmong(ctx, c.answering(nil), nil)
}

// Elected waits for a leader that is not one of the given servers, and returns it. All other
// servers must name the same leader.
func (c *Cluster) Elected(ctx context.Context, without ...*Server) (*Server, error) {
	return c.leaderAmong(ctx, c.answering(without), without)
}

// answering lists the servers that can answer.
func (c *Cluster) answering(without []*Server) []*Server {
	var out []*Server
	for _, s := range c.Servers {
		if s.Answers() && !among(without, s) {
			out = append(out, s)
		}
	}
	return out
}

// leaderAmong waits until all asked servers name one leader that is not among not.
func (c *Cluster) leaderAmong(ctx context.Context, asked, not []*Server) (leader *Server, err error) {
	err = within(ctx, readyWithin, "the servers agree on a leader", func(ctx context.Context) error {
		leader = nil
		for _, s := range asked {
			named, err := s.Leader()
			switch {
			case err != nil:
				return fmt.Errorf("ask %s: %w", s.Name, err)
			case among(not, named):
				return fmt.Errorf("%s still follows %s", s.Name, named.Name)
			case leader != nil && leader != named:
				return fmt.Errorf("%s follows %s, another %s", s.Name, named.Name, leader.Name)
			}
			leader = named
		}
		if leader == nil {
			return errors.New("no server can be asked")
		}
		return nil
	})
	return leader, err
}

// Leader returns the leader that the server knows.
func (s *Server) Leader() (*Server, error) {
	addr, err := s.ask.Status().Leader()
	if err != nil {
		return nil, err
	}
	for _, other := range s.cluster.Servers {
		if other.Addr == addr {
			return other, nil
		}
	}
	return nil, fmt.Errorf("the leader %q is none of ours", addr)
}

func among(all []*Server, s *Server) bool {
	for _, other := range all {
		if other == s {
			return true
		}
	}
	return false
}

// Cut drops all packets between two sides, in both directions.
func (c *Cluster) Cut(side, other []*Server) error { return c.drop(side, other, 100, true) }

// CutOneWay drops all packets from one side to the other.
func (c *Cluster) CutOneWay(from, to []*Server) error { return c.drop(from, to, 100, false) }

// Wear drops a percentage of the packets between two sides.
func (c *Cluster) Wear(side, other []*Server, percent int) error {
	return c.drop(side, other, percent, true)
}

func (c *Cluster) drop(from, to []*Server, percent int, both bool) error {
	if err := dropFrom(from, to, percent); err != nil || !both {
		return err
	}
	return dropFrom(to, from, percent)
}

// dropFrom makes each of to drop packets from each of from.
func dropFrom(from, to []*Server, percent int) error {
	for _, s := range to {
		var losses []Loss
		for _, f := range from {
			if f != s {
				losses = append(losses, Loss{From: f.host.Addr, Percent: percent})
			}
		}
		if err := s.host.Lose(losses...); err != nil {
			return err
		}
	}
	return nil
}

// Heal ends every loss and returns the number of lost packets.
func (c *Cluster) Heal() (lost uint64, err error) {
	for _, s := range c.Servers {
		n, _ := s.host.Lost() // there may be no table yet
		lost += n
		if err := s.host.Lose(); err != nil {
			return lost, err
		}
	}
	return lost, nil
}

// Others returns the other servers.
func (s *Server) Others() []*Server {
	var out []*Server
	for _, other := range s.cluster.Servers {
		if other != s {
			out = append(out, other)
		}
	}
	return out
}
