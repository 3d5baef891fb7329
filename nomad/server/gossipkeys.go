package server

import (
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/gossip"
)

// ListGossipKeys lists the keys that the servers of all regions have.
func (s *Server) ListGossipKeys() (*nomad.KeyringResponse, error) {
	return s.gossipKeys((*gossip.Pool).Keys)
}

// InstallGossipKey gives all servers another key.
func (s *Server) InstallGossipKey(key string) (*nomad.KeyringResponse, error) {
	return s.gossipKeys(func(p *gossip.Pool) (*nomad.KeyringResponse, error) { return p.InstallKey(key) })
}

// UseGossipKey makes all servers encrypt with a key.
func (s *Server) UseGossipKey(key string) (*nomad.KeyringResponse, error) {
	return s.gossipKeys(func(p *gossip.Pool) (*nomad.KeyringResponse, error) { return p.UseKey(key) })
}

// RemoveGossipKey makes all servers forget a key.
func (s *Server) RemoveGossipKey(key string) (*nomad.KeyringResponse, error) {
	return s.gossipKeys(func(p *gossip.Pool) (*nomad.KeyringResponse, error) { return p.RemoveKey(key) })
}

func (s *Server) gossipKeys(do func(*gossip.Pool) (*nomad.KeyringResponse, error)) (*nomad.KeyringResponse, error) {
	p := s.gossip.Load()
	if p == nil {
		return nil, nomad.Errorf(501, "this server takes no part in gossip: it was started with -dev")
	}
	return do(p)
}
