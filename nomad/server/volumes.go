package server

import (
	"github.com/open-nomad/open-nomad/nomad/claims"
	"github.com/open-nomad/open-nomad/nomad/csicall"
	"github.com/open-nomad/open-nomad/nomad/csisecret"
)

// openVolumes creates what calls CSI plugins and releases claims on their volumes.
func (s *Server) openVolumes() {
	s.secrets = csisecret.New(csisecret.Config{Store: s.fsm.State, Keyring: s.ring, Within: s.cfg.SignWithin})
	s.csi = csicall.New(csicall.Config{Region: s.cfg.Region, Nodes: func() csicall.Nodes { return s.rpc }, Peers: peers{s},
		Store: s.fsm.State, Log: s.log})
	s.claims = claims.New(claims.Config{Store: s.fsm.State, Raft: s.raft, Plugins: s.csi, Secrets: s.secrets,
		GoneAfter: s.cfg.CSIClaimGCThreshold, Log: s.log})
}
