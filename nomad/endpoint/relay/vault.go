package relay

import (
	"context"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/internal/untrusted"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/vault"
)

// maxVaultError is the maximum length of the error of a status in bytes.
const maxVaultError = 1024

// VaultTokens handles VaultTokens.List: the tokens in Vault of a node's allocations in namespaces whose jobs the caller may
// read. The job and the cluster come from the state. The rest is limited, since a compromised node could report anything.
func (s *Service) VaultTokens(ctx context.Context, c *rpc.Call, req *message.NodeSpecificRequest) (*message.VaultTokensResponse, error) {
	if req.NodeID == "" {
		return nil, apierror.Errorf(400, "missing node ID")
	}
	e, err := s.reach(c, req.NodeID, req.NodeID)
	if err != nil {
		return nil, err
	}
	out, err := callNode[message.NodeSpecificRequest, message.VaultTokensResponse](ctx, e, "VaultTokens.List", req)
	if err != nil {
		return nil, err
	}
	snap, may, seen := s.Snapshot(), handler.Grants(c, acl.ReadJob), map[[2]string]bool{}
	out.Tokens = slices.DeleteFunc(out.Tokens, func(t *message.VaultTokenStatus) bool {
		if t == nil {
			return true
		}
		alloc, key := snap.Alloc(nil, t.AllocID), [2]string{t.AllocID, t.Task}
		if alloc == nil || alloc.NodeID != req.NodeID || !may(alloc.Namespace) || seen[key] {
			return true
		}
		block := vaultBlock(alloc, t.Task)
		if block == nil {
			return true
		}
		seen[key] = true
		*t = *limited(t, block)
		t.Namespace, t.JobID = alloc.Namespace, alloc.JobID
		return false
	})
	return out, nil
}

// vaultBlock returns the vault block of a task of an allocation, or nil.
func vaultBlock(a *nomad.Allocation, task string) *nomad.Vault {
	if a.Job == nil {
		return nil
	}
	group := a.Job.TaskGroup(a.TaskGroup)
	if group == nil {
		return nil
	}
	for _, t := range group.Tasks {
		if t.Name == task {
			return t.Vault
		}
	}
	return nil
}

// limited returns a status of a task with a vault block. Its texts are printable and limited, and JSON has its times.
func limited(t *message.VaultTokenStatus, block *nomad.Vault) *message.VaultTokenStatus {
	return &message.VaultTokenStatus{AllocID: t.AllocID, Task: t.Task, Cluster: vault.ClusterOf(block),
		Role: untrusted.Line(t.Role, vault.MaxRole), LoggedIn: t.LoggedIn, Lease: max(0, t.Lease), Renewable: t.Renewable,
		Expires: encodable(t.Expires), NextRenewal: encodable(t.NextRenewal), Error: untrusted.Line(t.Error, maxVaultError), ErrorAt: encodable(t.ErrorAt)}
}

// encodable returns a time, or zero for one that JSON does not have.
func encodable(t time.Time) time.Time {
	if year := t.UTC().Year(); year < 1970 || year > 9000 {
		return time.Time{}
	}
	return t
}
