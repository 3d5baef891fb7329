package server

import "context"

// OwnToken is the identity with which the server calls others.
func (s *Server) OwnToken(ctx context.Context) (string, error) { return s.token(ctx) }
