package idtoken

import "github.com/hashicorp/go-msgpack/v2/codec"

// claimsWire is the msgpack form of Claims: one map of all names. Names of absent groups are left out.
// The codec would write them with empty values, and the reader would take the token for another kind.
type claimsWire struct {
	//lint:ignore U1000 read by the codec: zero fields stay off the wire
	_struct bool `codec:",omitempty"`

	Namespace, JobID, AllocationID, TaskName, ServiceName *string
	ConsulNamespace, VaultNamespace, VaultRole            *string
	ExtraClaims                                           map[string]string
	Isolation                                             string

	NodeID, NodePool, NodeClass, NodeDatacenter, NodeName *string

	Uses int

	Issuer, Subject, ID         string
	Audience                    []string
	Expiry, NotBefore, IssuedAt int64
}

// CodecEncodeSelf implements codec.Selfer.
func (c *Claims) CodecEncodeSelf(enc *codec.Encoder) {
	r := &c.RegisteredClaims
	w := claimsWire{Issuer: r.Issuer, Subject: r.Subject, ID: r.ID, Audience: r.Audience,
		Expiry: r.Expiry, NotBefore: r.NotBefore, IssuedAt: r.IssuedAt}
	switch {
	case c.WorkloadIdentityClaims != nil:
		g := *c.WorkloadIdentityClaims
		w.Namespace, w.JobID, w.AllocationID, w.TaskName, w.ServiceName = &g.Namespace, &g.JobID, &g.AllocationID, &g.TaskName, &g.ServiceName
		w.ConsulNamespace, w.VaultNamespace, w.VaultRole, w.ExtraClaims = &g.ConsulNamespace, &g.VaultNamespace, &g.VaultRole, g.ExtraClaims
		w.Isolation = g.Isolation
	case c.NodeIdentityClaims != nil:
		g := *c.NodeIdentityClaims
		w.NodeID, w.NodePool, w.NodeClass, w.NodeDatacenter = &g.NodeID, &g.NodePool, &g.NodeClass, &g.NodeDatacenter
	case c.NodeIntroductionIdentityClaims != nil:
		g := *c.NodeIntroductionIdentityClaims
		w.NodePool, w.NodeName, w.Uses = &g.NodePool, &g.NodeName, g.Uses
	}
	enc.MustEncode(&w)
}

// CodecDecodeSelf implements codec.Selfer.
func (c *Claims) CodecDecodeSelf(dec *codec.Decoder) {
	var w claimsWire
	dec.MustDecode(&w)
	*c = Claims{RegisteredClaims: RegisteredClaims{Issuer: w.Issuer, Subject: w.Subject, ID: w.ID, Audience: w.Audience,
		Expiry: w.Expiry, NotBefore: w.NotBefore, IssuedAt: w.IssuedAt}}
	text := func(s *string) string {
		if s == nil {
			return ""
		}
		return *s
	}
	switch {
	case w.AllocationID != nil || w.Namespace != nil || w.JobID != nil:
		c.WorkloadIdentityClaims = &WorkloadIdentityClaims{Namespace: text(w.Namespace), JobID: text(w.JobID),
			AllocationID: text(w.AllocationID), TaskName: text(w.TaskName), ServiceName: text(w.ServiceName),
			ConsulNamespace: text(w.ConsulNamespace), VaultNamespace: text(w.VaultNamespace), VaultRole: text(w.VaultRole),
			ExtraClaims: w.ExtraClaims, Isolation: w.Isolation}
	case w.NodeName != nil:
		c.NodeIntroductionIdentityClaims = &NodeIntroductionIdentityClaims{NodePool: text(w.NodePool), NodeName: *w.NodeName, Uses: w.Uses}
	case w.NodeID != nil || w.NodeClass != nil || w.NodeDatacenter != nil:
		c.NodeIdentityClaims = &NodeIdentityClaims{NodeID: text(w.NodeID), NodePool: text(w.NodePool),
			NodeClass: text(w.NodeClass), NodeDatacenter: text(w.NodeDatacenter)}
	}
}
