// Package vault has the part of a server's configuration about clusters of Vault and OpenBao: whether jobs may use a
// cluster, and the identity with which tasks log in. The servers never send a request to Vault for a job.
//
// The package starts no goroutine.
package vault

import (
	"cmp"
	"strings"

	"github.com/open-nomad/open-nomad/nomad"
)

// DefaultCluster is the name of the cluster that jobs can use.
const DefaultCluster = "default"

// MaxRole is the maximum length of a role in bytes.
const MaxRole = 512

// Cluster is a cluster in the configuration of a server.
type Cluster struct {
	Enabled bool // otherwise jobs with a vault block are refused
	// DefaultIdentity is the identity of tasks that do not have one for the cluster. Its name is not set. nil adds none.
	DefaultIdentity *nomad.WorkloadIdentity
	// ExtraClaims are added to each identity for the cluster if there is a DefaultIdentity, also to an identity that a job has
	// itself. Their values can contain variables, such as ${job.id}.
	ExtraClaims map[string]string
}

// Clusters are the clusters of a configuration by their names.
type Clusters map[string]*Cluster

// Enabled reports whether jobs may use a cluster.
func (c Clusters) Enabled(name string) bool { return c[name] != nil && c[name].Enabled }

// IsIdentity reports whether an identity has a name for Vault.
func IsIdentity(name string) bool { return strings.HasPrefix(name, identityPrefix) }

// ClusterOf returns the cluster of a vault block.
func ClusterOf(v *nomad.Vault) string { return cmp.Or(v.Cluster, DefaultCluster) }

// IdentityOf returns the identity with which a task logs in to the cluster of its vault block, or nil.
func IdentityOf(t *nomad.Task) *nomad.WorkloadIdentity {
	if t.Vault == nil {
		return nil
	}
	name := IdentityName(ClusterOf(t.Vault))
	for _, id := range t.Identities {
		if id != nil && id.Name == name {
			return id
		}
	}
	return nil
}

// identityPrefix begins the name of an identity for Vault.
const identityPrefix = "vault_"

// IdentityName returns the name of the identity with which a task logs in to a cluster.
func IdentityName(cluster string) string { return identityPrefix + cluster }
