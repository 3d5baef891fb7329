//go:build linux

package faults

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/open-nomad/open-nomad/api"
)

// wearPercent is the packet loss of a bad line.
const wearPercent = 20

// fault is one kind of fault. Strike returns after it took effect, with a function that undoes it.
type fault struct {
	name   string
	strike func(ctx context.Context, v *victims) (undo func(context.Context) error, err error)
}

// faults returns all faults.
func faults() []fault {
	return []fault{
		{"kill-leader", killLeader},
		{"kill-follower", killFollower},
		{"stop-leader", stopLeader},
		{"stop-follower", stopFollower},
		{"cut-leader", cutLeader},
		{"cut-followers", cutFollowers},
		{"mute-leader", muteLeader},
		{"deaf-leader", deafLeader},
		{"wear", wear},
		{"transfer", transfer},
		{"remove", remove},
		{"leave", leave},
	}
}

// LeaderFaults returns the names of the faults after which another server leads.
func LeaderFaults() []string {
	return []string{"kill-leader", "stop-leader", "cut-leader", "mute-leader", "deaf-leader", "transfer"}
}

// victims are the possible targets of a fault.
type victims struct {
	*Cluster
	leader *Server
	rng    *rand.Rand
}

// followers returns the followers in random order.
func (v *victims) followers() []*Server {
	out := v.leader.Others()
	v.rng.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// minority returns the leader with a minority of the servers, and the majority.
func (v *victims) minority() (minority, majority []*Server) {
	f := v.followers()
	n := len(f)/2 - 1
	return append([]*Server{v.leader}, f[:n]...), f[n:]
}

func killLeader(ctx context.Context, v *victims) (func(context.Context) error, error) {
	if err := v.leader.Kill(); err != nil {
		return nil, err
	}
	_, err := v.Elected(ctx, v.leader)
	return v.leader.Start, err
}

func killFollower(_ context.Context, v *victims) (func(context.Context) error, error) {
	f := v.followers()[0]
	if err := f.Kill(); err != nil {
		return nil, err
	}
	if _, err := f.ask.Agent().Self(); err == nil {
		return nil, fmt.Errorf("%s was killed and answers", f.Name)
	}
	return f.Start, nil
}

func stopLeader(ctx context.Context, v *victims) (func(context.Context) error, error) {
	if err := v.leader.Stop(); err != nil {
		return nil, err
	}
	_, err := v.Elected(ctx, v.leader)
	return func(context.Context) error { return v.leader.Continue() }, err
}

func stopFollower(_ context.Context, v *victims) (func(context.Context) error, error) {
	f := v.followers()[0]
	if err := f.Stop(); err != nil {
		return nil, err
	}
	if _, err := f.ask.Agent().Self(); err == nil {
		return nil, fmt.Errorf("%s was stopped and answers", f.Name)
	}
	return func(context.Context) error { return f.Continue() }, nil
}

// cutLeader separates the leader and a minority from the others.
func cutLeader(ctx context.Context, v *victims) (func(context.Context) error, error) {
	minority, majority := v.minority()
	if err := v.Cut(minority, majority); err != nil {
		return nil, err
	}
	return v.heal, v.deposed(ctx, minority...)
}

// cutFollowers separates two followers; both reach the leader.
func cutFollowers(ctx context.Context, v *victims) (func(context.Context) error, error) {
	f := v.followers()
	if err := v.Cut(f[:1], f[1:2]); err != nil {
		return nil, err
	}
	return v.heal, v.losing(ctx) // they exchange few messages
}

// muteLeader drops the packets from the leader.
func muteLeader(ctx context.Context, v *victims) (func(context.Context) error, error) {
	if err := v.CutOneWay([]*Server{v.leader}, v.leader.Others()); err != nil {
		return nil, err
	}
	return v.heal, v.deposed(ctx, v.leader)
}

// deafLeader drops the packets to the leader.
func deafLeader(ctx context.Context, v *victims) (func(context.Context) error, error) {
	if err := v.CutOneWay(v.leader.Others(), []*Server{v.leader}); err != nil {
		return nil, err
	}
	return v.heal, v.deposed(ctx, v.leader)
}

// wear drops a part of all packets.
func wear(ctx context.Context, v *victims) (func(context.Context) error, error) {
	if err := v.Wear(v.Cluster.Servers, v.Cluster.Servers, wearPercent); err != nil {
		return nil, err
	}
	return v.heal, v.losing(ctx)
}

// deposed waits until the others follow another leader, and the old one has stepped down.
func (v *victims) deposed(ctx context.Context, separated ...*Server) error {
	if _, err := v.Elected(ctx, separated...); err != nil {
		return err
	}
	return within(ctx, readyWithin, v.leader.Name+" leads no more", func(context.Context) error {
		if named, err := v.leader.Leader(); err == nil && named == v.leader {
			return errors.New("it still says that it does")
		}
		return nil
	})
}

// losing waits until packets were lost.
func (v *victims) losing(ctx context.Context) error {
	return within(ctx, readyWithin, "packets are lost", func(context.Context) error {
		for _, s := range v.Cluster.Servers {
			if n, err := s.host.Lost(); err == nil && n > 0 {
				return nil
			}
		}
		return errors.New("none yet")
	})
}

// heal ends the losses, and fails if there were none.
func (v *victims) heal(context.Context) error {
	lost, err := v.Heal()
	if err == nil && lost == 0 {
		err = errors.New("nothing was lost")
	}
	return err
}

// transfer transfers leadership to a follower.
func transfer(ctx context.Context, v *victims) (func(context.Context) error, error) {
	to := v.followers()[0]
	err := within(ctx, readyWithin, to.Name+" takes over", func(ctx context.Context) error {
		voters, err := v.voters(ctx, v.leader)
		if err != nil {
			return err
		}
		if err := v.leader.Client.Operator().RaftTransferLeadershipByID(voters[to.Addr], (&api.WriteOptions{}).WithContext(ctx)); err != nil {
			return err
		}
		now, err := to.Leader()
		if err == nil && now != to {
			err = fmt.Errorf("%s leads", now.Name)
		}
		return err
	})
	return nil, err
}

// voters returns the servers in the Raft configuration according to a server: IDs by address.
func (v *victims) voters(ctx context.Context, ask *Server) (map[string]string, error) {
	conf, err := ask.Client.Operator().RaftGetConfiguration((&api.QueryOptions{}).WithContext(ctx))
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, s := range conf.Servers {
		if s.Voter {
			out[s.Address] = s.ID
		}
	}
	return out, nil
}

// remove kills a follower and removes it from the Raft configuration; it rejoins with its data.
func remove(ctx context.Context, v *victims) (func(context.Context) error, error) {
	f := v.followers()[0]
	voters, err := v.voters(ctx, v.leader)
	if err != nil {
		return nil, err
	}
	if err := f.Kill(); err != nil {
		return nil, err
	}
	err = within(ctx, readyWithin, f.Name+" is removed", func(ctx context.Context) error {
		err := v.leader.Client.Operator().RaftRemovePeerByID(voters[f.Addr], (&api.WriteOptions{}).WithContext(ctx))
		return errors.Join(v.isVoter(ctx, f, false), err)
	})
	return func(ctx context.Context) error { return v.comeBack(ctx, f) }, err
}

// leave makes a server leave gracefully, and rejoin.
func leave(ctx context.Context, v *victims) (func(context.Context) error, error) {
	s := v.Cluster.Servers[v.rng.IntN(len(v.Cluster.Servers))]
	if err := s.End(ctx); err != nil {
		return nil, err
	}
	err := within(ctx, readyWithin, s.Name+" left", func(ctx context.Context) error { return v.isVoter(ctx, s, false) })
	return func(ctx context.Context) error { return v.comeBack(ctx, s) }, err
}

// comeBack starts a server and waits until it is a voter again.
func (v *victims) comeBack(ctx context.Context, s *Server) error {
	if err := s.Start(ctx); err != nil {
		return err
	}
	return within(ctx, readyWithin, s.Name+" is a voter again", func(ctx context.Context) error { return v.isVoter(ctx, s, true) })
}

// isVoter checks whether a server is a voter.
func (v *victims) isVoter(ctx context.Context, s *Server, want bool) error {
	others := v.answering([]*Server{s})
	voters, err := v.voters(ctx, others[0])
	if err != nil {
		return err
	}
	if _, is := voters[s.Addr]; is != want {
		return fmt.Errorf("%s is a voter: %t; the voters are %v", s.Name, is, slices.Sorted(maps.Keys(voters)))
	}
	return nil
}

// complete waits until all servers are voters. Autopilot removes a server that gossip declared as failed during a cut,
// and adds it when it is back. With fewer voters, the next fault would leave no majority.
func (v *victims) complete(ctx context.Context) error {
	return within(ctx, readyWithin, "all servers are voters", func(ctx context.Context) error {
		voters, err := v.voters(ctx, v.leader)
		if err == nil && len(voters) < len(v.Cluster.Servers) {
			err = fmt.Errorf("the voters are %v", slices.Sorted(maps.Keys(voters)))
		}
		return err
	})
}
