package events

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/stream"
)

const (
	// heartbeat is the interval of heartbeats on an idle stream.
	heartbeat = 30 * time.Second
	// recheck is how long the access of a reader is cached, unless access control has
	// changed.
	recheck = time.Second
)

// accessTables lists the tables that determine the rights of callers.
var accessTables = []string{state.TableACLToken, state.TableACLPolicy, state.TableACLRoles, state.TableNamespaces}

// Stream sends events until the reader disconnects, loses access or falls too far
// behind.
func (s *Service) Stream(ctx context.Context, c *rpc.Call, req *message.EventStreamRequest, to *rpc.Stream) error {
	filter, err := stream.NewFilter(req.Topics, handler.NamespaceOf(req.Namespace))
	if err != nil {
		return err
	}
	r := &reader{s: s, filter: filter, namespace: handler.NamespaceOf(req.Namespace), to: to}
	if err := r.admit(c); err != nil {
		return err
	}
	switch {
	case req.Index < 0:
		return apierror.Errorf(400, "invalid index %d of an event stream", req.Index)
	case s.broker == nil:
		return apierror.Errorf(501, "the event broker of this server is disabled: set server.enable_event_broker = true")
	}
	ctx, cancel := to.UntilClosed(ctx)
	defer cancel()
	index, newest, err := s.start(ctx, uint64(req.Index))
	if err != nil {
		return err
	}
	r.newest = newest
	from := s.broker.Subscribe(index)
	defer from.Close()
	err = r.run(ctx, from)
	if errors.Is(err, stream.ErrSlow) {
		s.Log.Warn("dropped event stream", "err", err)
	}
	return err
}

// start returns the index at which a stream begins. An index that the region has not reached is from another cluster,
// such as the one before it was rebuilt. No event would come for a long time, so the stream begins with the next entry.
// newest is then the newest entry, and 0 otherwise.
func (s *Service) start(ctx context.Context, asked uint64) (index, newest uint64, err error) {
	next := s.Raft.AppliedIndex() + 1
	if asked <= next {
		return asked, 0, nil
	}
	switch addr, id := s.Cluster.Leader(); {
	case id == "":
		return 0, 0, apierror.ErrNoLeader
	case id == s.Raft.ID():
		if err := s.Cluster.Confirm(ctx); err != nil {
			return 0, 0, err
		}
		next = s.Raft.AppliedIndex() + 1
	default: // this server may be behind
		var stats message.RaftStats
		req := &message.GenericRequest{QueryOptions: message.QueryOptions{Region: s.Region, AllowStale: true}}
		if err := s.Peers.Call(ctx, addr, "Status.RaftStats", req, &stats); err != nil {
			return 0, 0, fmt.Errorf("ask the leader for its newest log entry: %w", err)
		}
		next = max(next, stats.LastIndex+1)
	}
	if asked <= next {
		return asked, 0, nil
	}
	return next, next - 1, nil
}

// reader is the reader of one event stream.
type reader struct {
	s         *Service
	filter    stream.Filter
	namespace string
	to        *rpc.Stream

	c     *rpc.Call // the reader's current access
	asked time.Time // when the access was checked
	index uint64    // index of accessTables at that time

	newest uint64 // sent with the first line, see start
	line   bytes.Buffer
}

// run sends events, and heartbeats when there are none. It returns nil when the reader is
// gone.
func (r *reader) run(ctx context.Context, from *stream.Subscription) error {
	err := r.send([]byte("{}"))
	for err == nil {
		var batch *stream.Batch
		switch batch, err = r.next(ctx, from); {
		case ctx.Err() != nil:
			return nil
		case err == nil && batch == nil:
			err = r.send([]byte("{}"))
		case err == nil:
			err = r.tell(ctx, batch)
		}
	}
	return err
}

// next waits for the next batch. It returns nil after heartbeat.
func (r *reader) next(ctx context.Context, from *stream.Subscription) (*stream.Batch, error) {
	wait, cancel := context.WithTimeout(ctx, heartbeat)
	defer cancel()
	batch, err := from.Next(wait)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, nil
	}
	return batch, err
}

// tell sends the events of a batch that match the filter and that the reader may see. If access
// control has changed, it first renews the access. The state already contains all entries
// before the batch.
func (r *reader) tell(ctx context.Context, batch *stream.Batch) error {
	if err := r.renew(ctx); err != nil {
		return err
	}
	r.line.Reset()
	for _, e := range batch.Events() {
		if !r.filter.Matches(e) || !r.maySee(e) {
			continue
		}
		text, err := e.JSON()
		if err != nil {
			return err
		}
		if r.line.Len() == 0 {
			r.line.WriteString(`{"Index":` + strconv.FormatUint(batch.Index, 10) + `,"Events":[`)
		} else {
			r.line.WriteByte(',')
		}
		r.line.Write(text)
	}
	if r.line.Len() == 0 {
		return nil
	}
	r.line.WriteString("]}")
	return r.send(r.line.Bytes())
}

// errReaderGone ends a stream whose reader has disconnected.
var errReaderGone = errors.New("the event stream was closed")

func (r *reader) send(line []byte) error {
	wrapped := message.EventStreamWrapper{Event: &message.EventJson{Data: line}, Newest: r.newest}
	r.newest = 0
	if err := r.to.Encode(&wrapped); err != nil {
		return errors.Join(errReaderGone, err)
	}
	return nil
}

// renew checks the access of the reader again.
func (r *reader) renew(ctx context.Context) error {
	index, now := r.s.Snapshot().TableIndex(accessTables...), r.s.Now()
	if index == r.index && now.Sub(r.asked) < recheck {
		return nil
	}
	c, err := r.c.Renewed(ctx)
	if err != nil {
		return err
	}
	r.index, r.asked = index, now
	return r.admit(c)
}

// admit rejects a reader without access to one of the requested topics.
func (r *reader) admit(c *rpc.Call) error {
	r.c = c
	for _, topic := range r.filter.Topics() {
		if err := r.needTopic(topic); err != nil {
			return err
		}
	}
	return nil
}

// needTopic rejects a reader without access to a topic.
func (r *reader) needTopic(topic message.Topic) error {
	access := r.c.Access
	q, management := stream.ToRead(topic, r.namespace)
	switch {
	case management:
		return access.NeedManagement()
	case topic == message.TopicVariable:
		if err := handler.NoNode(r.c); err != nil {
			return err
		}
		return r.inSome(q, access.AllowsSearch)
	case q.Kind != acl.Namespaces:
		return access.Need(q)
	case r.namespace != nomad.AllNamespacesSentinel:
		return access.Need(q)
	}
	return r.inSome(q, func(namespace string) bool {
		q, _ := stream.ToRead(topic, namespace)
		return access.Allows(q)
	})
}

// inSome rejects a reader that has access in none of the requested namespaces.
func (r *reader) inSome(q acl.Question, may func(namespace string) bool) error {
	if r.namespace != nomad.AllNamespacesSentinel {
		if may(r.namespace) {
			return nil
		}
		return rpc.Denied(q)
	}
	for ns := range r.s.Snapshot().Namespaces(nil) {
		if may(ns.Name) {
			return nil
		}
	}
	return rpc.Denied(q)
}

// maySee reports whether the reader may see an event.
func (r *reader) maySee(e *stream.Event) bool {
	q, management := e.Need()
	if management {
		return r.c.Access.IsManagement()
	}
	return r.c.Access.Allows(q) && (e.Topic != message.TopicVariable || handler.NoNode(r.c) == nil)
}
