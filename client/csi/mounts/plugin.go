package mounts

import (
	"context"

	clientcsi "github.com/open-nomad/open-nomad/client/csi"
	"github.com/open-nomad/open-nomad/client/csi/instances"
)

// Plugin is a node plugin (csi.Plugin).
type Plugin interface {
	NodeStage(ctx context.Context, req *clientcsi.NodeRequest) error
	NodePublish(ctx context.Context, req *clientcsi.NodeRequest) error
	NodeUnpublish(ctx context.Context, volume, target string) error
	NodeUnstage(ctx context.Context, volume, staging string) error
	NodeExpand(ctx context.Context, req clientcsi.ExpandRequest) (int64, error)
}

// Instance describes the instance of a plugin that serves the node.
type Instance struct {
	Root     string // the directory of its volumes, on the host
	TaskRoot string // the same directory as the plugin sees it
	Stages   bool   // it stages volumes before it publishes them
	// Privileged reports whether the plugin may do on the node what root may.
	Privileged bool
}

// Plugins finds the node plugins. The error for a plugin without an instance on the node is instances.ErrNotFound.
type Plugins interface {
	// Await returns the instance of a plugin. It waits for one minute at most until it is healthy.
	Await(ctx context.Context, id string) (Plugin, Instance, error)
	// Current is Await without waiting.
	Current(id string) (Plugin, Instance, error)
}

// Of returns the node plugins of a set.
func Of(s *instances.Set) Plugins { return set{s} }

type set struct{ of *instances.Set }

func (s set) Await(ctx context.Context, id string) (Plugin, Instance, error) {
	p, i, err := s.of.Plugin(ctx, instances.KindNode, id)
	if err != nil {
		return nil, Instance{}, err
	}
	return p, s.describe(&i), nil
}

func (s set) Current(id string) (Plugin, Instance, error) {
	p, i, err := s.of.Current(instances.KindNode, id)
	if err != nil {
		return nil, Instance{}, err
	}
	return p, s.describe(&i), nil
}

// describe returns what the plugin has said about the node.
func (s set) describe(i *instances.Instance) Instance {
	_, nodes := s.of.Infos()
	info := nodes[i.ID]
	return Instance{Root: i.Root, TaskRoot: i.TaskRoot, Privileged: i.Privileged,
		Stages: info != nil && info.NodeInfo != nil && info.NodeInfo.RequiresNodeStageVolume}
}
