package io.lakemq;

import io.delta.storage.CloseableIterator;
import io.delta.storage.S3SingleDriverLogStore;
import java.io.ByteArrayOutputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.util.Iterator;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * Delta's log in a bucket: an entry is put where there is none, by one request that the store decides (If-None-Match),
 * so of any number of drivers one makes it. Delta's own class looks first and puts then.
 *
 * It is compiled as the jars are set up, by the compiler that is part of Spark.
 */
public class ConditionalLogStore extends S3SingleDriverLogStore {
    private static final String CONDITIONAL = "fs.option.create.conditional.overwrite";

    public ConditionalLogStore(Configuration hadoopConf) {
        super(hadoopConf);
    }

    public void write(Path path, Iterator actions, Boolean overwrite, Configuration hadoopConf) throws IOException {
        if (overwrite.booleanValue()) {
            super.write(path, actions, overwrite, hadoopConf);
            return;
        }
        ByteArrayOutputStream text = new ByteArrayOutputStream();
        while (actions.hasNext()) {
            text.write(((String) actions.next()).getBytes(StandardCharsets.UTF_8));
            text.write('\n');
        }
        byte[] content = text.toByteArray();
        FileSystem files = path.getFileSystem(hadoopConf);
        FSDataOutputStreamBuilder builder = files.createFile(path);
        builder.must(CONDITIONAL, true);
        try {
            OutputStream out = (FSDataOutputStream) builder.build();
            out.write(content);
            out.close();
        } catch (IOException refused) {
            settle(files, path, content, refused);
        }
    }

    /**
     * What became of a put that failed, by what is there now. An answer may have been lost and the request repeated:
     * then it is ours, as no two commits are alike.
     */
    private void settle(FileSystem files, Path path, byte[] content, IOException refused) throws IOException {
        byte[] there;
        try {
            there = new byte[(int) files.getFileStatus(path).getLen()];
            FSDataInputStream in = files.open(path);
            try {
                in.readFully(0, there);
            } finally {
                in.close();
            }
        } catch (FileNotFoundException none) {
            throw refused;
        }
        if (!java.util.Arrays.equals(there, content)) {
            throw new FileAlreadyExistsException(path.toString());
        }
    }
}
