package identity

import (
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/idtoken"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// short is the lifetime below which the expiration time is rounded up to a second. Rounding down
// would remove most of the life of a one-second token.
const short = 5 * time.Second

// Subject is a task or service of an allocation, with its job, namespace and node.
type Subject struct {
	Alloc *nomad.Allocation
	// Job is the allocation's job: in a plan the allocation does not carry it.
	Job      *nomad.Job
	Handle   message.WIHandle
	Identity *nomad.WorkloadIdentity
	// Namespace may add claims, may be nil.
	Namespace *nomad.Namespace
	// Node is the node of the allocation. If nil, its values are empty.
	Node *nomad.Node
	// Digests holds the SHA-256 of the downloaded artifacts of the task, by destination.
	Digests map[string]string
}

// Workload returns the claims of a task or service of an allocation.
func (i *Issuer) Workload(s Subject, now time.Time) *idtoken.Claims {
	alloc, job, handle, identity := s.Alloc, s.Job, s.Handle, s.Identity
	id := job.IdentityID()
	w := &idtoken.WorkloadIdentityClaims{Namespace: alloc.Namespace, JobID: id, AllocationID: alloc.ID, ExtraClaims: i.extraClaims(s),
		Isolation: s.isolation(), ConsulNamespace: s.consulNamespace()}
	if block, _ := i.vaultOf(s); block != nil {
		w.VaultRole, w.VaultNamespace = block.Role, block.Namespace
	}
	switch handle.WorkloadType {
	case message.WorkloadTypeService:
		w.ServiceName = handle.WorkloadIdentifier
		if handle.InterpolatedWorkloadIdentifier != "" {
			w.ServiceName = handle.InterpolatedWorkloadIdentifier
		}
	default:
		w.TaskName = handle.WorkloadIdentifier
	}
	region := job.Region
	if region == "" {
		region = i.region
	}
	c := i.claims(now, identity.TTL, region, alloc.Namespace, id, alloc.TaskGroup, handle.WorkloadIdentifier, identity.Name)
	c.WorkloadIdentityClaims, c.Audience, c.Alg = w, identity.Audience, identity.Alg
	return c
}

// Node returns the claims of a node. ttl comes from its node pool.
func (i *Issuer) Node(node *nomad.Node, ttl time.Duration, now time.Time) *idtoken.Claims {
	c := i.claims(now, atLeast(ttl), "node", i.region, node.NodePool, node.ID, nomad.WorkloadIdentityDefaultName)
	c.NodeIdentityClaims = &idtoken.NodeIdentityClaims{NodeID: node.ID, NodePool: node.NodePool,
		NodeClass: node.NodeClass, NodeDatacenter: node.Datacenter}
	if since := node.IdentitiesSince; since > c.IssuedAt { // the clock of this server is behind
		c.IssuedAt, c.NotBefore = since, since
	}
	c.Audience = idtoken.Audience{nomad.IdentityDefaultAud}
	return c
}

// Introduction returns the claims with which intro.Uses nodes may register in a pool. If intro has
// no node name, any name is accepted.
func (i *Issuer) Introduction(intro *idtoken.NodeIntroductionIdentityClaims, ttl time.Duration, now time.Time) *idtoken.Claims {
	c := i.claims(now, atLeast(ttl), "node-introduction", i.region, intro.NodePool, intro.NodeName, nomad.WorkloadIdentityDefaultName)
	c.NodeIntroductionIdentityClaims = intro
	c.Audience = idtoken.Audience{nomad.IdentityDefaultAud}
	return c
}

// Server returns the claims that a server presents to another server.
func (i *Issuer) Server(id string, now time.Time) *idtoken.Claims {
	c := i.claims(now, ServerTTL, "server", i.region, id)
	c.ServerIdentityClaims = &idtoken.ServerIdentityClaims{ServerID: id}
	c.Audience = idtoken.Audience{nomad.IdentityDefaultAud}
	return c
}

// atLeast ensures that a node token has an expiration time.
func atLeast(ttl time.Duration) time.Duration {
	if ttl <= 0 {
		return nomad.DefaultNodePoolNodeIdentityTTL
	}
	return ttl
}

// subjectOf joins the parts of a subject. Colons and percent signs within a part are
// percent-encoded, so that different parts give different subjects.
func subjectOf(parts []string) string {
	encoded := make([]string, len(parts))
	for n, part := range parts {
		encoded[n] = separators.Replace(part)
	}
	return strings.Join(encoded, ":")
}

var separators = strings.NewReplacer("%", "%25", ":", "%3A")

// claims returns the claims common to all kinds. Without a TTL the token does not expire: it is
// valid as long as its workload runs.
func (i *Issuer) claims(now time.Time, ttl time.Duration, subject ...string) *idtoken.Claims {
	c := &idtoken.Claims{RegisteredClaims: idtoken.RegisteredClaims{
		Issuer:    i.url,
		Subject:   subjectOf(subject),
		IssuedAt:  now.Unix(),
		NotBefore: now.Unix(),
		ID:        nomad.NewID(),
	}}
	if ttl > 0 {
		end := now.Add(ttl)
		if ttl < short {
			end = end.Add(time.Second - 1)
		}
		c.Expiry = end.Unix()
	}
	return c
}
