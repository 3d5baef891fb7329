package consensus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/open-nomad/open-nomad/nomad/consensus/logstore"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// Raft is the replicated log of a server.
type Raft struct {
	raft   *raft.Raft
	stores *stores
	trans  raft.Transport
	ours   bool // this Raft created the transport and closes it
	id     string
	log    *slog.Logger
	rounds rounds // confirmations of leadership
	asked  asked

	commands gather       // on the way to the log
	broken   func() error // of the FSM

	onlyOurs func(message.CommandType) error // Config.CheckOwnCommands

	end   sync.Once
	ended chan struct{} // closed when raft has shut down

	mu      sync.Mutex
	changed chan struct{} // closed when the leader changes
}

// Open opens or creates the log of a server and starts raft.
func Open(c Config) (*Raft, error) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	s := memoryStores(c.ID)
	if c.Dir != "" {
		var err error
		backend := c.Backend
		backend.SegmentSize = c.SegmentSize
		if s, err = (place{dir: c.Dir, id: c.ID, backend: backend, log: raftLogger(c.Log)}).stores(); err != nil {
			return nil, err
		}
		if err := s.cache(c.NoLogCache); err != nil {
			return nil, errors.Join(err, s.close())
		}
	}
	r, err := start(c, s)
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	r.electAlone()
	return r, nil
}

// start starts raft with the given stores.
func start(c Config, s *stores) (*Raft, error) {
	rc, err := raftConfig(c, s.id)
	if err != nil {
		return nil, err
	}
	r := &Raft{stores: s, trans: c.Transport, id: s.id, log: c.Log, ended: make(chan struct{}), changed: make(chan struct{}),
		broken:   brokenOf(c.FSM),
		onlyOurs: c.CheckOwnCommands}
	committed := &commits{}
	switch {
	case r.trans != nil:
	case c.Streams != nil:
		r.trans, r.ours = c.Streams.network(s.id, c.Locate, committed, c.Log), true
	default:
		_, mem := raft.NewInmemTransport(raft.ServerAddress(c.Address))
		r.trans, r.ours = mem, true
	}
	if err := recoverPeers(c, rc, s, r.trans); err != nil {
		return nil, err
	}
	if c.Bootstrap {
		if err := bootstrap(rc, s, r.trans); err != nil {
			return nil, err
		}
	}
	if r.raft, err = begin(rc, &watchedFSM{BatchingFSM: c.FSM, commits: committed}, s, r.trans); err != nil {
		return nil, fmt.Errorf("start raft: %w", err)
	}
	r.commands.log = func(command []byte, within time.Duration) raft.ApplyFuture { return r.raft.Apply(command, within) }
	r.raft.RegisterObserver(raft.NewObserver(nil, false, r.observe))
	return r, nil
}

// brokenOf returns the Broken method of the FSM, which returns why the FSM no longer applies
// entries. The method is optional.
func brokenOf(f raft.FSM) func() error {
	if b, ok := f.(interface{ Broken() error }); ok {
		return b.Broken
	}
	return func() error { return nil }
}

// begin starts raft. Raft panics if an entry between the snapshot and the end of the log is
// missing; begin turns the panic into an error.
func begin(rc *raft.Config, watched *watchedFSM, s *stores, trans raft.Transport) (r *raft.Raft, err error) {
	defer func() {
		if found := recover(); found != nil {
			r, err = nil, fmt.Errorf("%w: an entry after the last snapshot cannot be read: %v", logstore.ErrDamaged, found)
		}
	}()
	r, err = raft.NewRaft(rc, watched, s.log, s.stable, s.snapshots, trans)
	if err == nil {
		return r, nil
	}
	cause := watched.failed
	if files, ok := s.snapshots.(*privateSnapshots); ok && cause == nil {
		cause = files.failure()
	}
	if cause != nil {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	return nil, err
}

// observe wakes the waiters for a leader change.
func (r *Raft) observe(o *raft.Observation) bool {
	if _, ok := o.Data.(raft.LeaderObservation); ok {
		r.mu.Lock()
		defer r.mu.Unlock()
		close(r.changed)
		r.changed = make(chan struct{})
	}
	return false
}

// bootstrap makes this server the only voter of a cluster without a log.
func bootstrap(rc *raft.Config, s *stores, trans raft.Transport) error {
	has, err := raft.HasExistingState(s.log, s.stable, s.snapshots)
	if err != nil {
		return fmt.Errorf("read raft log: %w", err)
	}
	if has {
		return nil
	}
	conf := raft.Configuration{Servers: []raft.Server{{ID: rc.LocalID, Address: trans.LocalAddr()}}}
	if err := raft.BootstrapCluster(rc, s.log, s.stable, s.snapshots, trans, conf); err != nil {
		return fmt.Errorf("bootstrap raft: %w", err)
	}
	return nil
}

// electAlone starts an election at once if this server is the only voter. No heartbeat of another
// leader can arrive, so waiting for the timer would waste time. It sends raft the message with
// which a leader hands over to a follower.
func (r *Raft) electAlone() {
	f := r.raft.GetConfiguration()
	if f.Error() != nil {
		return
	}
	voters := 0
	for _, s := range f.Configuration().Servers {
		if s.Suffrage == raft.Voter {
			voters++
			if s.ID != raft.ServerID(r.id) {
				return
			}
		}
	}
	if voters == 1 {
		r.Campaign()
	}
}

// Campaign starts an election at once, as after a transfer of leadership to this server. Callers must
// know that no leader exists, because the election would replace it.
func (r *Raft) Campaign() {
	self := r.trans.LocalAddr()
	if mem, ok := r.trans.(*raft.InmemTransport); ok {
		mem.Connect(self, mem)
		defer mem.Disconnect(self)
	}
	req := &raft.TimeoutNowRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: protocol,
		ID: []byte(r.id), Addr: r.trans.EncodePeer(raft.ServerID(r.id), self)}}
	if err := r.trans.TimeoutNow(raft.ServerID(r.id), self, req, &raft.TimeoutNowResponse{}); err != nil {
		r.log.Debug("election not started early", "err", err)
	}
}

// Tune changes settings while the server runs. It can only lengthen timers: raft refuses values
// below the initial leader lease.
func (r *Raft) Tune(t Tuning) error {
	if err := r.raft.ReloadConfig(t.settings()); err != nil {
		return fmt.Errorf("tune raft: %w", err)
	}
	return nil
}

// Tuned returns the current settings.
func (r *Raft) Tuned() Tuning {
	rc := r.raft.ReloadableConfig()
	return Tuning{Multiplier: int(rc.HeartbeatTimeout / time.Second), SnapshotThreshold: rc.SnapshotThreshold,
		SnapshotInterval: rc.SnapshotInterval, TrailingLogs: rc.TrailingLogs}
}

// ID returns the server's UUID.
func (r *Raft) ID() string { return r.id }

// Barrier waits until all current log entries have been applied.
func (r *Raft) Barrier(ctx context.Context) error {
	if err := r.wait(ctx, r.raft.Barrier(enqueueTimeout)); err != nil {
		return fmt.Errorf("barrier: %w", err)
	}
	if err := r.broken(); err != nil {
		return fmt.Errorf("barrier: %w", err)
	}
	return nil
}

// wait waits for f within ctx and translates its error.
func (r *Raft) wait(ctx context.Context, f raft.Future) error {
	done := make(chan error, 1)
	go func() { done <- f.Error() }()
	err, late := awaited(ctx, r, done)
	return cmp.Or(late, outcome(err))
}

// Leadership returns a channel that receives true when this server becomes leader and false
// when it stops being leader. The channel holds only the latest value.
func (r *Raft) Leadership() <-chan bool { return r.raft.LeaderCh() }

// IsLeader reports whether this server is the leader.
func (r *Raft) IsLeader() bool { return r.raft.State() == raft.Leader }

// Leader returns the address and the ID of the leader, or empty strings.
func (r *Raft) Leader() (addr, id string) {
	a, i := r.raft.LeaderWithID()
	return string(a), string(i)
}

// LeaderChange returns a channel that is closed when the leader changes. Call it before Leader,
// so that no change is missed.
func (r *Raft) LeaderChange() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changed
}

// AppliedIndex returns the index of the last entry that was applied.
func (r *Raft) AppliedIndex() uint64 { return r.raft.AppliedIndex() }

// Unwritable returns why this server's log cannot be written at the moment, or nil. Such a
// server cannot be leader.
func (r *Raft) Unwritable() error { return r.stores.unwritable() }

// LastContact returns the time of the last contact with the leader.
func (r *Raft) LastContact() time.Time { return r.raft.LastContact() }

// Servers returns the servers in the latest configuration of the log.
func (r *Raft) Servers() ([]raft.Server, error) {
	f := r.raft.GetConfiguration()
	if err := f.Error(); err != nil {
		return nil, fmt.Errorf("read raft configuration: %w", err)
	}
	return f.Configuration().Servers, nil
}

// Snapshot writes a snapshot now.
func (r *Raft) Snapshot() error {
	if err := r.raft.Snapshot().Error(); err != nil && !errors.Is(err, raft.ErrNothingNewToSnapshot) {
		return fmt.Errorf("raft snapshot: %w", err)
	}
	return nil
}

// Stats returns raft's statistics, which agent self shows.
func (r *Raft) Stats() map[string]string { return r.raft.Stats() }

// Close shuts down raft and unlocks the directory.
func (r *Raft) Close() error {
	r.stores.interrupt()
	err := r.raft.Shutdown().Error()
	r.end.Do(func() { close(r.ended) })
	if c, ok := r.trans.(raft.WithClose); ok && r.ours {
		err = errors.Join(err, c.Close())
	}
	return errors.Join(err, r.stores.close())
}
