package config

// Credentials are those of a registry. They print nothing.
type Credentials struct {
	Username string
	Secret   string
	Server   string
}

// String returns no part of the credentials.
func (c *Credentials) String() string { return "credentials" }

// GoString returns no part of the credentials.
func (c *Credentials) GoString() string { return "credentials" }
