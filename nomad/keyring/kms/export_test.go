package kms

import "github.com/open-nomad/open-nomad/nomad"

// ThereAndBack takes a stored blob through the library's form.
func ThereAndBack(b *nomad.BlobInfo) (*nomad.BlobInfo, error) {
	l, err := fromStored(b)
	if err != nil {
		return nil, err
	}
	return stored(l), nil
}
