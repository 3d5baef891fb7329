package rpc

// audit begins the record of a call that came over a connection. Refused is what is
// wrong with its caller. What done returns is the answer in place of err.
func (s *Server) audit(m Method, c *Call, req Request, refused error) (done func(err error) error, err error) {
	if s.cfg.Audit == nil || c.Conn == nil {
		return func(err error) error { return err }, nil
	}
	return s.cfg.Audit(m, c, req, refused)
}
