-- Room on a worker that is kept for work which goes first and does not fit yet.
ALTER TABLE workers ADD COLUMN kept text;
