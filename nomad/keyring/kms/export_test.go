package kms

import "github.com/open-nomad/open-nomad/nomad/rootkey"

// ThereAndBack converts a stored blob to the library's form and back.
func ThereAndBack(b *rootkey.BlobInfo) (*rootkey.BlobInfo, error) {
	l, err := fromStored(b)
	if err != nil {
		return nil, err
	}
	return stored(l), nil
}
