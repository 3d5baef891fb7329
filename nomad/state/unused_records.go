package state

import (
	"fmt"

	"github.com/hashicorp/go-msgpack/v2/codec"
)

// droppedRecord is a record type that older servers wrote and that is now ignored.
func droppedRecord(kind byte, name string) Record {
	return Record{Type: kind, Name: name, read: func(_ *Restore, decode func(any) error) error {
		var raw codec.Raw
		return decode(&raw)
	}}
}

// refusedRecord is a record type that makes a restore fail.
func refusedRecord(kind byte, name string) Record {
	return Record{Type: kind, Name: name, read: func(*Restore, func(any) error) error {
		return fmt.Errorf("records of type %d (%s) are from a beta version and cannot be restored", kind, name)
	}}
}
