package server

import (
	"context"

	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// State returns the current state of this server. It may lag behind that of the leader.
func (s *Server) State() *state.Store { return s.fsm.State() }

// ServerToken returns the identity token with which this server calls others. Only tests call it.
func (s *Server) ServerToken(ctx context.Context) (string, error) { return s.token(ctx) }

// Apply writes a log entry without any check, as a server of another version might. Only tests call it.
func (s *Server) Apply(ctx context.Context, t message.CommandType, entry any) error {
	_, err := s.raft.Apply(ctx, t, entry)
	return err
}
