package hostvolumes

import (
	"cmp"
	"context"
	"errors"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/hostvolume"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/rules"
)

// Create creates a volume with a plugin of a node, or updates one that no allocation uses.
func (s *Service) Create(ctx context.Context, c *rpc.Call,
	req *message.HostVolumeCreateRequest) (*message.HostVolumeCreateResponse, error) {
	v, err := s.admit(c, wish{volume: req.Volume, namespace: req.Namespace, override: req.PolicyOverride, right: acl.HostVolumeCreate})
	if err != nil {
		return nil, err
	}
	v.HostPath, v.CapacityBytes = "", 0 // set by the plugin
	update := v.ID != ""
	if !update {
		v.ID = nomad.NewID()
	}
	end, err := s.begin(v.ID)
	if err != nil {
		return nil, err
	}
	defer end()
	if update {
		snap, old, release := s.withheld(v.Namespace, v.ID)
		defer release()
		if old == nil {
			return nil, apierror.Errorf(404, "cannot update volume: no such volume: %s", v.ID)
		}
		if err := succeed(snap, v, old); err != nil {
			return nil, err
		}
		if v.PluginID == "" {
			return nil, apierror.Errorf(400, "cannot update volume %s: it was registered, not created: use volume register", v.ID)
		}
	} else {
		if v.PluginID == "" {
			v.PluginID = hostvolume.DefaultPlugin
		}
		free, err := s.place(s.Snapshot(), v)
		if err != nil {
			return nil, err
		}
		defer free()
	}
	ctx = context.WithoutCancel(ctx) // an operation on the node is completed or undone
	var got message.ClientHostVolumeCreateResponse
	if err := s.onNode(ctx, nodeCall{v.NodeID, "Create",
		&message.ClientHostVolumeCreateRequest{ID: v.ID, Name: v.Name, PluginID: v.PluginID, Namespace: v.Namespace, NodeID: v.NodeID,
			RequestedCapacityMinBytes: v.RequestedCapacityMinBytes, RequestedCapacityMaxBytes: v.RequestedCapacityMaxBytes, Parameters: v.Parameters,
			Update: update}}, &got); err != nil {
		return nil, onNodeFailed("create volume "+v.Name, v.NodeID, err)
	}
	v.HostPath, v.CapacityBytes = got.HostPath, got.CapacityBytes
	out := &message.HostVolumeCreateResponse{}
	out.Volume, out.Index, err = s.store(ctx, v, update)
	return out, err
}

// Register makes a path of a node a volume.
func (s *Service) Register(ctx context.Context, c *rpc.Call,
	req *message.HostVolumeRegisterRequest) (*message.HostVolumeRegisterResponse, error) {
	v, err := s.admit(c, wish{volume: req.Volume, namespace: req.Namespace, override: req.PolicyOverride, right: acl.HostVolumeRegister})
	if err != nil {
		return nil, err
	}
	if v.ID == "" {
		v.ID = nomad.NewID()
	}
	end, err := s.begin(v.ID)
	if err != nil {
		return nil, err
	}
	defer end()
	update, free, err := s.locate(v, req.Volume.ID != "")
	if err != nil {
		return nil, err
	}
	defer free()
	ctx = context.WithoutCancel(ctx)
	if err := s.onNode(ctx, nodeCall{v.NodeID, "Register",
		&message.ClientHostVolumeRegisterRequest{ID: v.ID, Name: v.Name, NodeID: v.NodeID, HostPath: v.HostPath,
			CapacityBytes: v.CapacityBytes, Parameters: v.Parameters}}, &message.ClientHostVolumeRegisterResponse{}); err != nil {
		return nil, onNodeFailed("register volume "+v.Name, v.NodeID, err)
	}
	out := &message.HostVolumeRegisterResponse{}
	out.Volume, out.Index, err = s.store(ctx, v, update)
	return out, err
}

// locate checks the node and the path of a registered volume. named reports whether the request has an ID: that of a
// stored volume, or that of a volume which only the node has.
func (s *Service) locate(v *hostvolume.Volume, named bool) (update bool, free func(), err error) {
	snap, old, release := s.withheld(v.Namespace, v.ID)
	if named && old != nil {
		err := cmp.Or(succeed(snap, v, old), checkPlace(v))
		if err != nil {
			release()
		}
		return true, release, err
	}
	release()
	if err := checkPlace(v); err != nil {
		return false, nil, err
	}
	n := snap.Node(nil, v.NodeID)
	if n == nil {
		return false, nil, apierror.UnknownNode(v.NodeID)
	}
	if v.NodePool != "" && v.NodePool != n.NodePool {
		return false, nil, apierror.Errorf(400, "cannot register volume: node %s is in node pool %q, not in %q", n.ID, n.NodePool, v.NodePool)
	}
	v.NodePool = n.NodePool
	if have := n.HostVolumes[v.Name]; named && (have == nil || have.ID != v.ID || snap.HostVolumeByID(v.ID) != nil) {
		return false, nil, apierror.Errorf(404, "cannot register volume: no such volume: %s", v.ID)
	}
	free, err = s.reserve(snap, n, v.Name)
	return false, free, err
}

// checkPlace returns an error if a registered volume has no node or no valid path.
func checkPlace(v *hostvolume.Volume) error {
	if v.NodeID == "" {
		return apierror.Errorf(400, "cannot register volume: node ID is required: set node_id")
	}
	return rules.HostPath(v.HostPath)
}

// store writes the volume to the log. If the log rejects a new volume, the node removes it.
func (s *Service) store(ctx context.Context, v *hostvolume.Volume, update bool) (*hostvolume.Volume, uint64, error) {
	now := s.UnixNow()
	if v.ModifyTime = now; !update {
		v.CreateTime = now
	}
	entry := &message.HostVolumeRegisterRequest{Volume: v, WriteRequest: message.WriteRequest{Region: s.Region, Namespace: v.Namespace}}
	index, err := s.Apply(ctx, message.HostVolumeRegisterRequestType, entry)
	if err != nil && index > 0 && !update {
		err = errors.Join(err, s.remove(ctx, v))
	}
	if err != nil {
		return nil, 0, handler.BadRequest(err)
	}
	return s.Snapshot().HostVolume(nil, v.Namespace, v.ID), index, nil
}

// remove deletes a volume from its node.
func (s *Service) remove(ctx context.Context, v *hostvolume.Volume) error {
	err := s.onNode(ctx, nodeCall{v.NodeID, "Delete",
		&message.ClientHostVolumeDeleteRequest{ID: v.ID, Name: v.Name, PluginID: v.PluginID, Namespace: v.Namespace,
			NodeID: v.NodeID, HostPath: v.HostPath, Parameters: v.Parameters}}, &message.ClientHostVolumeDeleteResponse{})
	if err != nil {
		return onNodeFailed("delete volume "+v.Name, v.NodeID, err)
	}
	return nil
}

// Delete deletes a volume that no allocation uses. Without the node it needs force, and leaves the directory there.
func (s *Service) Delete(ctx context.Context, _ *rpc.Call,
	req *message.HostVolumeDeleteRequest) (*message.HostVolumeDeleteResponse, error) {
	namespace := handler.NamespaceOf(req.Namespace)
	end, err := s.begin(req.VolumeID)
	if err != nil {
		return nil, err
	}
	defer end()
	snap, v, release := s.withheld(namespace, req.VolumeID)
	defer release()
	if v == nil {
		return nil, apierror.Errorf(404, "no such volume: %s", req.VolumeID)
	}
	if ids := users(snap, v); len(ids) > 0 {
		return nil, apierror.Errorf(400, "volume %s in use by allocations: %v", v.ID, ids)
	}
	ctx = context.WithoutCancel(ctx)
	err = apierror.UnknownNode(v.NodeID)
	known := snap.Node(nil, v.NodeID) != nil
	if known {
		err = s.remove(ctx, v)
	}
	switch {
	case err == nil, req.Force:
	case !known:
		return nil, apierror.Errorf(400, "volume cannot be removed from unknown node without force=true")
	case errors.Is(err, apierror.ErrNoNodeConn):
		return nil, apierror.Errorf(400, "volume cannot be removed from node %s, which is not connected, without force=true", v.NodeID)
	default:
		return nil, err
	}
	if err != nil {
		s.Log.Warn("deleting a host volume without its node", "volume", v.ID, "node", v.NodeID, "err", err)
	}
	entry := &message.HostVolumeDeleteRequest{VolumeID: v.ID, WriteRequest: message.WriteRequest{Region: s.Region, Namespace: v.Namespace}}
	index, err := s.Apply(ctx, message.HostVolumeDeleteRequestType, entry)
	if err != nil {
		return nil, handler.BadRequest(err)
	}
	out := &message.HostVolumeDeleteResponse{}
	out.Index = index
	return out, nil
}

// DeleteClaim deletes the claim of a group on a volume. The caller needs the right in the namespace of the claim.
func (s *Service) DeleteClaim(ctx context.Context, c *rpc.Call,
	req *message.TaskGroupVolumeClaimDeleteRequest) (*message.TaskGroupVolumeClaimDeleteResponse, error) {
	claim, namespace := s.Snapshot().VolumeClaim(nil, req.ClaimID), ""
	if claim != nil {
		namespace = claim.Namespace
	}
	if err := handler.NeedInNamespace(c, namespace, apierror.Errorf(404, "task group volume claim does not exist"),
		acl.HostVolumeDelete); err != nil {
		return nil, err
	}
	entry := &message.TaskGroupVolumeClaimDeleteRequest{ClaimID: claim.ID,
		WriteRequest: message.WriteRequest{Region: s.Region, Namespace: namespace}}
	index, err := s.Apply(ctx, message.TaskGroupHostVolumeClaimDeleteRequestType, entry)
	if err != nil {
		return nil, handler.BadRequest(err)
	}
	out := &message.TaskGroupVolumeClaimDeleteResponse{}
	out.Index = index
	return out, nil
}
