package nomad

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"maps"
	"slices"
)

// digest is a hash over fields. The length precedes each field, so that field boundaries are unambiguous.
type aclDigest struct{ h hash.Hash }

// newACLDigest starts the digest of an object of the given kind.
func newACLDigest(kind string) aclDigest { return aclDigest{sha256.New()}.text(kind) }

func (d aclDigest) text(fields ...string) aclDigest {
	for _, f := range fields {
		d.h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(f)))) // a hash never returns an error
		d.h.Write([]byte(f))
	}
	return d
}

func (d aclDigest) number(n int64) aclDigest {
	d.h.Write(binary.BigEndian.AppendUint64(nil, uint64(n)))
	return d
}

func (d aclDigest) flag(b bool) aclDigest {
	if b {
		return d.number(1)
	}
	return d.number(0)
}

// list adds the number of strings, then each string.
func (d aclDigest) list(texts []string) aclDigest { return d.number(int64(len(texts))).text(texts...) }

func (d aclDigest) pairs(m map[string]string) aclDigest {
	d.number(int64(len(m)))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		d.text(k, m[k])
	}
	return d
}

func (d aclDigest) sum() []byte { return d.h.Sum(nil) }
