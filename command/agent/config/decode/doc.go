// Package decode reads HCL and JSON files into structs whose tags describe the keys.
//
//	type Ports struct {
//		HTTP int `hcl:"http" default:"4646"`
//	}
//
// The tag hcl holds the key and its mode. The modes of labeled blocks are "label", "once" (labels are
// unique in a file) and "named" (with a key name). The mode "byname" is a list of blocks without labels: those with
// the same value of the key name are merged. The tag default holds the default as text. The tag later holds the feature
// that the key requires and that is missing; the caller handles such keys. The tag merge:"union" adds the elements of a
// list to those of earlier files. A struct is a block.
//
//	file ──hcl.go, json.go──▶ values with places ──decode.go──▶ struct
//
// Decoding over a struct keeps the values of keys that the file does not set, so files merge in
// order. Errors contain the place and the key, but no value, because it may be a secret. The
// package has no state and checks no meaning of a value.
package decode
