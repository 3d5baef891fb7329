package consensus

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/raft"

	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// Log writes commands. Raft implements it.
type Log interface {
	// Apply writes a command and returns the index of its entry, after the FSM has applied it. An error
	// of the FSM comes with the index.
	Apply(ctx context.Context, t message.CommandType, payload any) (index uint64, err error)
}

// ResultLog writes commands and returns the results of the FSM. Raft implements it.
type ResultLog interface {
	// ApplyResult is Apply with the result of the FSM. Callers use ApplyFor.
	ApplyResult(ctx context.Context, t message.CommandType, payload any) (result any, index uint64, err error)
}

// ApplyFor writes a command whose result is an R.
func ApplyFor[R any](ctx context.Context, log ResultLog, t message.CommandType, payload any) (R, uint64, error) {
	result, index, err := log.ApplyResult(ctx, t, payload)
	out, ok := result.(R)
	if err == nil && !ok {
		err = fmt.Errorf("command %d: the result is a %T, want a %T", t, result, out)
	}
	return out, index, err
}

// ErrMaybeApplied means that leadership was lost, or that ctx ended, after raft received the
// command. The command may or may not be in the log. Callers must not repeat it blindly.
var ErrMaybeApplied = apierror.ErrMaybeApplied

// Apply writes a command to the log and returns the index of its entry. If the FSM returns an error, so does
// Apply, with the index. After an entry that the FSM could not apply, nothing is written.
func (r *Raft) Apply(ctx context.Context, t message.CommandType, payload any) (uint64, error) {
	_, index, err := r.ApplyResult(ctx, t, payload)
	return index, err
}

// ApplyResult is Apply with the result of the FSM. Callers use ApplyFor.
func (r *Raft) ApplyResult(ctx context.Context, t message.CommandType, payload any) (result any, index uint64, err error) {
	if err := r.broken(); err != nil {
		return nil, 0, fmt.Errorf("apply command %d: %w", t, err)
	}
	if t.Ours() && r.onlyOurs != nil {
		if err := r.onlyOurs(t); err != nil {
			return nil, 0, err
		}
	}
	data, err := codec.EncodeCommand(t, payload)
	if err != nil {
		return nil, 0, fmt.Errorf("encode command %d: %w", t, err)
	}
	out, err := awaited(ctx, r, r.commands.add(data))
	if err == nil {
		err = outcome(out.err)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("apply command %d: %w", t, err)
	}
	if err, failed := out.resp.(error); failed {
		return nil, out.index, err
	}
	return out.resp, out.index, nil
}

// awaited receives raft's answer within ctx. Raft never answers the commands that are still
// queued when it shuts down.
func awaited[T any](ctx context.Context, r *Raft, answer <-chan T) (out T, err error) {
	select {
	case out = <-answer:
		return out, nil
	case <-r.ended:
		return out, fmt.Errorf("%w: %w", ErrMaybeApplied, raft.ErrRaftShutdown)
	case <-ctx.Done():
		return out, fmt.Errorf("%w: %w", ErrMaybeApplied, ctx.Err())
	}
}

// outcome is ourError for commands. An error without a name in raft is a failed write to the
// log. The entry may be on disk all the same and take effect after the next start.
func outcome(err error) error {
	ours := ourError(err)
	if ours == nil || errors.Is(ours, apierror.ErrNoLeader) || errors.Is(ours, ErrMaybeApplied) {
		return ours
	}
	return fmt.Errorf("%w: %w", ErrMaybeApplied, err)
}

// ourError translates raft's errors. A caller may retry on another server only if the command
// certainly was not applied.
func ourError(err error) error {
	switch {
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrLeadershipTransferInProgress),
		errors.Is(err, raft.ErrEnqueueTimeout):
		return fmt.Errorf("%w: %w", apierror.ErrNoLeader, err)
	case errors.Is(err, raft.ErrLeadershipLost), errors.Is(err, raft.ErrAbortedByRestore), errors.Is(err, raft.ErrRaftShutdown):
		return fmt.Errorf("%w: %w", ErrMaybeApplied, err)
	}
	return err
}
