package message

import "github.com/open-nomad/open-nomad/nomad"

// DriverSchemaUpsertRequest is the request of Node.UpsertDriverSchemas and its log entry.
type DriverSchemaUpsertRequest struct {
	NodeID  string
	Schemas []*nomad.DriverSchema
	WriteRequest
}
