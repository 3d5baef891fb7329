package server

import (
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/gossip"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// ListGossipKeys lists the gossip keys of the servers in all regions.
func (s *Server) ListGossipKeys() (*message.KeyringResponse, error) {
	return s.gossipKeys((*gossip.Pool).Keys)
}

// InstallGossipKey installs a gossip key on all servers.
func (s *Server) InstallGossipKey(key string) (*message.KeyringResponse, error) {
	return s.gossipKeys(func(p *gossip.Pool) (*message.KeyringResponse, error) { return p.InstallKey(key) })
}

// UseGossipKey makes a key the primary key on all servers.
func (s *Server) UseGossipKey(key string) (*message.KeyringResponse, error) {
	return s.gossipKeys(func(p *gossip.Pool) (*message.KeyringResponse, error) { return p.UseKey(key) })
}

// RemoveGossipKey removes a key from all servers.
func (s *Server) RemoveGossipKey(key string) (*message.KeyringResponse, error) {
	return s.gossipKeys(func(p *gossip.Pool) (*message.KeyringResponse, error) { return p.RemoveKey(key) })
}

func (s *Server) gossipKeys(do func(*gossip.Pool) (*message.KeyringResponse, error)) (*message.KeyringResponse, error) {
	p := s.gossip.Load()
	if p == nil {
		return nil, apierror.Errorf(501, "this server does not use gossip: it was started with -dev")
	}
	return do(p)
}
