// Package catalog lists static embedding models that crabmem model add installs by name,
// and downloads their files.
package catalog

import "slices"

// A Model is a static embedding model of model2vec at one revision.
type Model struct {
	Name     string
	License  string // identifier of SPDX
	About    string
	Owner    string // who publishes the repository Name
	Revision string // a commit
	Files    []File
}

// A File is a model's file at its Revision.
type File struct {
	Name   string
	Size   int64
	SHA256 string
}

const (
	// Host serves the repositories.
	Host = "https://huggingface.co"

	minish    = "minishlab" // the authors of model2vec
	weights   = "model.safetensors"
	tokenizer = "tokenizer.json"
)

// Models are the known models, the smallest first. Each has a WordPiece tokenizer, which
// package static requires: potion-multilingual-128M has another one.
var Models = []Model{
	{"potion-base-4M", "MIT", "English, general", minish, "9b3cff412d30be9ae8603fe10224c224f3401869", []File{
		{tokenizer, 683666, "e67e803f624fb4d67dea1c730d06e1067e1b14d830e2c2202569e3ef0f70bb50"},
		{weights, 15118424, "8a7140edd17ffab30ddcff1135eda127df57abfae856203dbd7b3d061295c31a"},
	}},
	{"potion-base-8M", "MIT", "English, general", minish, "bf8b056651a2c21b8d2565580b8569da283cab23", []File{
		{tokenizer, 683666, "e67e803f624fb4d67dea1c730d06e1067e1b14d830e2c2202569e3ef0f70bb50"},
		{weights, 30236760, "f65d0f325faadc1e121c319e2faa41170d3fa07d8c89abd48ca5358d9a223de2"},
	}},
	{"potion-base-32M", "MIT", "English, general", minish, "1e5a03f8eeb2c98b928fbbd846f22f816360919f", []File{
		{tokenizer, 1493150, "7d75cbc54318138807c401b0f0c9721117c628b39de8e8e0edb6cb17e0ee7d18"},
		{weights, 129210456, "99f6c33204c9231a7391871b7a3c91409b532c8f587a9ea44fc282303d8dec28"},
	}},
	{"potion-retrieval-32M", "MIT", "English, for search", minish, "6fc8051fab2a1e0ee76689cf08c853792ac285e7", []File{
		{tokenizer, 1493150, "7d75cbc54318138807c401b0f0c9721117c628b39de8e8e0edb6cb17e0ee7d18"},
		{weights, 129210456, "07609e5bd33aad37900b3fd62f4ec96f6daec88ca4d46b9d8b928bfababf6ea0"},
	}},
}

// Find returns the model with a name, or nil.
func Find(name string) *Model {
	if i := slices.IndexFunc(Models, func(m Model) bool { return m.Name == name }); i >= 0 {
		return &Models[i]
	}
	return nil
}

// Bytes returns the size of all files.
func (m *Model) Bytes() (n int64) {
	for _, f := range m.Files {
		n += f.Size
	}
	return n
}

// Page returns the address of the revision for people.
func (m *Model) Page() string { return Host + "/" + m.Owner + "/" + m.Name + "/tree/" + m.Revision }

// url returns a file's address on a host.
func (m *Model) url(host, file string) string {
	return host + "/" + m.Owner + "/" + m.Name + "/resolve/" + m.Revision + "/" + file
}
