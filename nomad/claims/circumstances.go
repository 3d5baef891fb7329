package claims

import (
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/csi"
)

// circumstances are what the next step of a claim depends on. A change makes an attempt useful.
type circumstances struct {
	state      csi.ClaimState
	status     string // of the node, "" if it does not exist
	onNode     bool   // the plugin is healthy on the node
	plugin     bool   // the plugin exists
	controller bool   // it has a healthy controller
}

// circumstancesOf returns the circumstances of a claim. p is nil if the plugin does not exist.
func circumstancesOf(s *volumeView, p *csi.Plugin, c *csi.Claim) (out circumstances) {
	out.state = c.State
	if n := s.snap.Node(s.ws, nodeOf(s.snap, c)); n != nil {
		out.status = n.Status
	}
	if p != nil {
		out.plugin, out.onNode = true, healthy(p.Nodes[nodeOf(s.snap, c)])
		for node, info := range p.Controllers {
			n := s.snap.Node(nil, node)
			out.controller = out.controller || healthy(info) && n != nil && n.Status == nomad.NodeStatusReady
		}
	}
	return out
}

func healthy(info *nomad.CSIInfo) bool { return info != nil && info.Healthy }
