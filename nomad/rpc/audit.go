package rpc

// audit starts the audit record of a call that came over a connection. refused is the
// authentication error of its caller. The error that done returns replaces err in the answer.
func (s *Server) audit(m Method, c *Call, req Request, refused error) (done func(err error) error, err error) {
	if s.cfg.Audit == nil || c.Conn == nil {
		return func(err error) error { return err }, nil
	}
	return s.cfg.Audit(m, c, req, refused)
}
