package csicall

import (
	"errors"
	"reflect"

	"github.com/open-nomad/open-nomad/internal/untrusted"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/csi"
)

// maxError limits the text of an error, in bytes. Nodes shorten the text of a plugin to half of it.
const maxError = 1024

// cleaned returns the error of a node with a printable text of limited length, without secrets and mount flags of the
// request. It is a sentinel only if the call has not reached a plugin, because a plugin can write the text of any.
func cleaned(err error, req any) error {
	text := untrusted.Line(csi.Hide(err.Error(), secretsOf(req), flagsOf(req)), maxError)
	if elsewhere(err) {
		return apierror.FromText(text)
	}
	return errors.New(text)
}

// secretsOf returns the field Secrets of a request.
func secretsOf(req any) csi.Secrets {
	secrets, _ := field(req, "Secrets").(csi.Secrets)
	return secrets
}

// flagsOf returns the mount flags of the field MountOptions of a request.
func flagsOf(req any) []string {
	flags, _ := field(field(req, "MountOptions"), "MountFlags").([]string)
	return flags
}

// field returns a field of a struct that v points to, or nil if it has none.
func field(v any, name string) any {
	at := reflect.Indirect(reflect.ValueOf(v))
	if at.Kind() != reflect.Struct {
		return nil
	}
	if f := at.FieldByName(name); f.IsValid() {
		return f.Interface()
	}
	return nil
}
