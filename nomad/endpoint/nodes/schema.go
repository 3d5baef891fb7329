package nodes

import (
	"context"
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/authz"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/plugins/schema"
)

// UpsertDriverSchemas stores schemas of the caller's drivers, which the node names in its attributes.
func (s *Service) UpsertDriverSchemas(ctx context.Context, c *rpc.Call,
	req *message.DriverSchemaUpsertRequest) (*message.GenericResponse, error) {
	if err := authz.SameNode(c.Identity, req.NodeID); err != nil {
		return nil, err
	}
	snap := s.Snapshot()
	node := snap.Node(nil, req.NodeID)
	if node == nil {
		return nil, apierror.ErrNodeNotFound
	}
	if n := len(req.Schemas); n > schema.MaxPerNode {
		return nil, apierror.Errorf(400, "the request has %d driver schemas: the limit is %d", n, schema.MaxPerNode)
	}
	for _, d := range req.Schemas {
		if err := acceptable(node, d); err != nil {
			return nil, err
		}
	}
	wanted := s.wanted(snap, node)
	entry := &message.DriverSchemaUpsertRequest{NodeID: node.ID, WriteRequest: message.WriteRequest{Region: s.Region}}
	for _, d := range req.Schemas {
		if slices.Contains(wanted, d.Digest) {
			entry.Schemas = append(entry.Schemas, &nomad.DriverSchema{Digest: d.Digest, Spec: d.Spec})
		}
	}
	out := &message.GenericResponse{}
	if len(entry.Schemas) == 0 {
		return out, nil
	}
	var err error
	out.Index, err = s.Apply(ctx, message.DriverSchemaUpsertRequestType, entry)
	return out, err
}

// acceptable rejects a schema that is too large, invalid or not of the node.
func acceptable(node *nomad.Node, d *nomad.DriverSchema) error {
	switch {
	case d == nil:
		return apierror.Errorf(400, "missing driver schema")
	case len(d.Spec) > schema.MaxSize:
		return apierror.Errorf(400, "driver schema has %d bytes: the limit is %d", len(d.Spec), schema.MaxSize)
	case d.Digest != schema.Digest(d.Spec):
		return apierror.Errorf(400, "driver schema does not have the digest %q", d.Digest)
	case !node.NamesSchema(d.Digest):
		return apierror.Errorf(403, "no driver of the node has the schema %q", d.Digest)
	}
	if _, err := schema.Parse(d.Spec); err != nil {
		return apierror.Errorf(400, "driver schema %s: %v", d.Digest, err)
	}
	return nil
}

// wanted returns the digests that a node names and the servers do not have, sorted. It is empty while
// the region has servers of another implementation, or the servers have too many schemas.
func (s *Service) wanted(snap *state.Snapshot, node *nomad.Node) (out []string) {
	for digest := range node.SchemaDigests() {
		if !s.Schemas.Builtin(digest) && snap.DriverSchema(nil, digest) == nil {
			out = append(out, digest)
		}
	}
	if len(out) == 0 || s.OnlyOurs("schemas of drivers") != nil {
		return nil
	}
	stored := 0
	for range snap.DriverSchemas(nil) {
		stored++
	}
	slices.Sort(out)
	out = slices.Compact(out)
	return out[:min(len(out), schema.MaxPerNode, max(nomad.MaxDriverSchemas-stored, 0))]
}
